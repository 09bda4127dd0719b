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
    public function createApplication(): Application
    {
        putenv('APP_ENV=testing');
        putenv('SESSION_DRIVER=array');
        putenv('CACHE_DRIVER=array');
        $app = require __DIR__ . '/../bootstrap/app.php';
        $app->make(Kernel::class)->bootstrap();
        return $app;
    }

    /** The model says these, one after the other. */
    private function modelSays(array ...$messages): void
    {
        $model = new class ($messages) extends LanguageModel {
            public function __construct(private array $messages)
            {
            }

            public function complete(string $model, array $messages, array $tools): array
            {
                return ['choices' => [['message' => ['role' => 'assistant'] + array_shift($this->messages)]]];
            }
        };
        $this->app->instance(LanguageModel::class, $model);
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
}
