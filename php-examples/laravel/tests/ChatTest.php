<?php

declare(strict_types=1);

namespace Tests;

use App\Chat\LanguageModel;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Testing\TestCase;
use Pillion\Laravel\Facades\Pillion;

/** How an application tests what it does with tools: no server is asked, and no model. */
final class ChatTest extends TestCase
{
    private ?LanguageModel $model = null;

    public function createApplication(): Application
    {
        putenv('APP_ENV=testing');
        putenv('SESSION_DRIVER=array');
        putenv('CACHE_DRIVER=array');
        $app = require __DIR__ . '/../bootstrap/app.php';
        $app->make(Kernel::class)->bootstrap();
        return $app;
    }

    protected function tearDown(): void
    {
        parent::tearDown();
        // Those of Laravel, which PHPUnit from 11 on holds against the test.
        restore_error_handler();
        restore_exception_handler();
    }

    /** The model says these, one after the other. */
    private function modelSays(array ...$messages): void
    {
        if ($this->model !== null) {
            // Laravel keeps a controller, and its model, from one request of a test to the next.
            $this->model->messages = $messages;
            return;
        }
        $this->model = new class ($messages) extends LanguageModel {
            /** @var list<string> */
            public array $asked = [];

            public function __construct(public array $messages)
            {
            }

            public function complete(string $model, array $messages, array $tools): array
            {
                $message = array_shift($this->messages) ?? throw new \RuntimeException('The model is away');
                $this->asked[] = $model;
                return ['choices' => [['message' => ['role' => 'assistant'] + $message]]];
            }
        };
        $this->app->instance(LanguageModel::class, $this->model);
    }

    /** @return array<string, mixed> */
    private static function calling(string $tool, array $arguments): array
    {
        return ['content' => null, 'tool_calls' => [[
            'id' => 'call_1',
            'type' => 'function',
            'function' => ['name' => $tool, 'arguments' => json_encode($arguments)],
        ]]];
    }

    public function test_the_page_offers_the_models(): void
    {
        $this->get('/')->assertOk()->assertSee('without-mcp');
    }

    public function test_the_mcp_flag_decides_what_a_model_sees(): void
    {
        Pillion::fake(['everything_get-sum' => 42])->preventStrayCalls();
        $this->getJson('/tools?model=with-mcp')->assertOk()->assertJsonFragment(['everything_get-sum']);
        $this->getJson('/tools?model=without-mcp')->assertOk()->assertJsonMissing(['everything_get-sum']);
    }

    public function test_a_tool_of_a_server_answers(): void
    {
        Pillion::fake(['everything_get-sum' => 'The sum is 42.'])->preventStrayCalls();
        $this->modelSays(self::calling('everything_get-sum', ['a' => 2, 'b' => 40]), ['content' => 'It is 42.']);
        $this->postJson('/chat', ['model' => 'with-mcp', 'message' => 'What is 2 + 40?'])
            ->assertOk()->assertJson(['text' => 'It is 42.', 'waiting' => []]);
        Pillion::assertToolCalled('everything_get-sum', ['a' => 2, 'b' => 40]);
    }

    public function test_a_refund_waits_for_the_customer(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls();
        $this->modelSays(self::calling('refund_order', ['order' => 7]), ['content' => 'You have your money back.']);
        $asked = $this->postJson('/chat', ['model' => 'without-mcp', 'message' => 'Refund order 7'])
            ->assertOk()->assertJson(['text' => null, 'waiting' => [['tool' => 'refund_order']]]);
        Pillion::assertNothingCalled();
        $this->postJson('/chat', ['model' => 'without-mcp', 'message' => 'Hello?'])->assertStatus(409);

        $this->postJson('/approvals/' . $asked->json('waiting.0.id'), ['approve' => true])
            ->assertOk()->assertJson(['text' => 'You have your money back.']);
        Pillion::assertToolCalled('refund_order', 1);
    }

    public function test_a_refund_that_is_denied_does_not_run(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls();
        $this->modelSays(self::calling('refund_order', ['order' => 7]), ['content' => 'As you like.']);
        $asked = $this->postJson('/chat', ['model' => 'without-mcp', 'message' => 'Refund order 7']);
        $answer = $this->postJson('/approvals/' . $asked->json('waiting.0.id'), ['approve' => false]);
        self::assertStringContainsString('was denied', $answer->json('messages.2.content'));
        Pillion::assertNothingCalled();
    }

    public function test_nobody_else_can_approve(): void
    {
        $id = Pillion::forUser('somebody else')->call('refund_order', ['order' => 7])->metadata['approval_id'];
        $this->postJson("/approvals/$id", ['approve' => true])->assertNotFound();
        self::assertTrue(Pillion::approvals()->find($id)->isPending());
    }

    private function askForARefund(): string
    {
        return $this->postJson('/chat', ['model' => 'without-mcp', 'message' => 'Refund order 7'])
            ->assertOk()->json('waiting.0.id');
    }

    public function test_a_refund_is_made_once_when_the_model_fails_after_it(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls();
        $this->modelSays(self::calling('refund_order', ['order' => 7]));
        $id = $this->askForARefund();
        $this->postJson("/approvals/$id", ['approve' => true])->assertStatus(500);

        $this->modelSays(['content' => 'You have your money back.']);
        $answer = $this->postJson('/chat', ['model' => 'without-mcp', 'message' => 'Well?'])
            ->assertOk()->assertJson(['text' => 'You have your money back.', 'waiting' => []]);
        self::assertSame(['user', 'assistant', 'tool', 'user', 'assistant'], array_column($answer->json('messages'), 'role'));
        Pillion::assertToolCalled('refund_order', 1);
    }

    public function test_the_page_shows_what_waits(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls();
        $this->modelSays(self::calling('refund_order', ['order' => 7]));
        $id = $this->askForARefund();
        $this->get('/')->assertOk()->assertSee($id);
    }

    public function test_an_approval_that_lapses_counts_as_denied(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls();
        $answers = [
            'decided on' => fn (string $id) => $this->postJson("/approvals/$id", ['approve' => true]),
            'not decided on' => fn () => $this->postJson('/chat', ['model' => 'without-mcp', 'message' => 'Hello?']),
        ];
        foreach ($answers as $how => $answer) {
            $this->flushSession();
            $this->modelSays(self::calling('refund_order', ['order' => 7]), ['content' => 'As you like.']);
            $id = $this->askForARefund();
            $this->travel(3601)->seconds();
            $this->get('/')->assertDontSee($id);
            $said = $answer($id)->assertOk()->assertJson(['text' => 'As you like.', 'waiting' => []]);
            self::assertStringContainsString('was denied', $said->json('messages.2.content'), $how);
        }
        Pillion::assertNothingCalled();
    }

    public function test_what_is_decided_cannot_be_decided_again(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls();
        $this->modelSays(self::calling('refund_order', ['order' => 7]), ['content' => 'Done.'], ['content' => 'You are welcome.']);
        $id = $this->askForARefund();
        Pillion::approvals()->approve($id);
        $this->postJson("/approvals/$id", ['approve' => false])->assertStatus(409);
        $this->postJson('/chat', ['model' => 'without-mcp', 'message' => 'Thank you'])
            ->assertOk()->assertJson(['text' => 'You are welcome.']);
        Pillion::assertToolCalled('refund_order', 1);
    }

    public function test_only_the_configured_models_are_to_be_had_under_their_providers_names(): void
    {
        config(['pillion.models.with-mcp.upstream' => 'gpt-4.1-mini', 'pillion.models.with-mcp.mcp' => false]);
        $this->modelSays(['content' => 'Hello.']);
        $this->postJson('/chat', ['model' => 'with-mcp', 'message' => 'Hello'])->assertOk();
        self::assertSame(['gpt-4.1-mini'], $this->model->asked);
        foreach (['gpt-4.1-mini', '', null, ['function_calling' => true, 'mcp' => true]] as $model) {
            $this->postJson('/chat', ['model' => $model, 'message' => 'Hello'])->assertStatus(422);
        }
        $this->getJson('/tools?model=other')->assertStatus(422);
    }
}
