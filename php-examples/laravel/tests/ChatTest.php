<?php

declare(strict_types=1);

namespace Tests;

use App\Http\Controllers\ChatController;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Bootstrap\HandleExceptions;
use Illuminate\Foundation\Testing\TestCase;
use Illuminate\Support\Facades\Route;
use Illuminate\Testing\TestResponse;
use Pillion\Laravel\Facades\Pillion;

/** Shows how to test an application with tools, without a server or a model. */
final class ChatTest extends TestCase
{
    public function createApplication(): Application
    {
        putenv('APP_ENV=testing');
        putenv('SESSION_DRIVER=array');
        putenv('CACHE_STORE=array');
        $app = require __DIR__ . '/../bootstrap/app.php';
        $app->make(Kernel::class)->bootstrap();
        return $app;
    }

    protected function tearDown(): void
    {
        parent::tearDown();
        // Laravel 10 and older leave their handlers in place, which PHPUnit 11 and later report as risky.
        if (!method_exists(HandleExceptions::class, 'flushHandlersState')) {
            restore_error_handler();
            restore_exception_handler();
        }
    }

    private function sendMessage(string $message, string $model = 'without-mcp'): TestResponse
    {
        return $this->postJson('/chat', ['model' => $model, 'message' => $message]);
    }

    private function decide(string $id, bool $approve): TestResponse
    {
        return $this->postJson("/approvals/$id", ['approve' => $approve]);
    }

    /** @return list<array{string, array<string, mixed>}> the events of a stream: type and data */
    private static function events(TestResponse $response): array
    {
        $response->assertOk();
        preg_match_all('/^event: (\w+)\ndata: (.*)\n\n/m', $response->streamedContent(), $events, PREG_SET_ORDER);
        return array_map(fn (array $event) => [$event[1], json_decode($event[2], true)], $events);
    }

    /** @return array{status: string, text: ?string, limit: ?string, error: ?string, waiting: list<array<string, mixed>>} the data of the last event */
    private static function answer(TestResponse $response): array
    {
        $events = self::events($response);
        [$type, $answer] = end($events);
        self::assertSame('done', $type);
        return $answer;
    }

    private function requestRefund(): string
    {
        $answer = self::answer($this->sendMessage('Refund order 7'));
        self::assertSame([null, 'refund_order'], [$answer['text'], $answer['waiting'][0]['tool']]);
        return $answer['waiting'][0]['id'];
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
        Pillion::fake(['everything_get-sum' => 'The sum is 42.'])->preventStrayCalls()
            ->fakeModel(['everything_get-sum' => ['a' => 2, 'b' => 40]], 'It is 42.');
        $answer = self::answer($this->sendMessage('What is 2 + 40?', 'with-mcp'));
        self::assertSame(['answered', 'It is 42.', []], [$answer['status'], $answer['text'], $answer['waiting']]);
        Pillion::assertToolCalled('everything_get-sum', ['a' => 2, 'b' => 40]);
    }

    public function test_events_are_streamed(): void
    {
        Pillion::fake(['order_status' => 'on its way'])->preventStrayCalls()->fakeModel(['order_status' => ['order' => 7]], 'On its way.');
        $response = $this->sendMessage('Where is order 7?');
        self::assertStringContainsString('text/event-stream', (string) $response->headers->get('Content-Type'));
        [[$started, $call], [$finished, $result], [$delta, $words], [$done]] = self::events($response);
        self::assertSame(['tool_started', 'tool_finished', 'delta', 'done'], [$started, $finished, $delta, $done]);
        self::assertSame(['order_status', ['order' => 7], 'on its way', 'On its way.'], [$call['name'], $call['arguments'], $result['content'], $words['text']]);
    }

    public function test_a_refund_waits_for_the_customer(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls()->fakeModel(['refund_order' => ['order' => 7]], 'You have your money back.');
        $id = $this->requestRefund();
        Pillion::assertNothingCalled();
        $this->sendMessage('Hello?')->assertStatus(409);
        self::assertSame('You have your money back.', self::answer($this->decide($id, true))['text']);
        Pillion::assertToolCalled('refund_order', 1);
    }

    public function test_a_refund_that_is_denied_does_not_run(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls()->fakeModel(['refund_order' => ['order' => 7]], 'As you like.');
        [, [$type, $result]] = self::events($this->decide($this->requestRefund(), false));
        self::assertSame(['tool_finished', 'denied'], [$type, $result['error_code']]);
        Pillion::assertNothingCalled();
    }

    public function test_only_the_user_can_approve(): void
    {
        $id = Pillion::forUser('another user')->call('refund_order', ['order' => 7])->metadata['approval_id'];
        $this->decide($id, true)->assertNotFound();
        self::assertTrue(Pillion::approvals()->find($id)->isPending());
    }

    public function test_visitors_share_no_chat(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls()->fakeModel(['refund_order' => ['order' => 7]], 'Hello.');
        $id = $this->requestRefund();
        $this->flushSession();
        $this->get('/')->assertOk()->assertDontSee($id);
        self::assertSame('Hello.', self::answer($this->sendMessage('Hello'))['text']);
        $this->decide($id, true)->assertNotFound();
        Pillion::assertNothingCalled();
    }

    public function test_a_route_without_a_session_has_no_chat(): void
    {
        Pillion::fake()->preventStrayCalls();
        Route::post('/stateless', [ChatController::class, 'sendMessage']);
        $this->postJson('/stateless', ['model' => 'without-mcp', 'message' => 'Hello'])->assertStatus(500);
    }

    public function test_a_refund_is_made_once_when_the_model_fails_after_it(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls()
            ->fakeModel(['refund_order' => ['order' => 7]], new \RuntimeException('The model is away'), 'You have your money back.');
        $answer = self::answer($this->decide($this->requestRefund(), true));
        self::assertSame(['failed', 'The model cannot answer at the moment.'], [$answer['status'], $answer['error']]);
        $answer = self::answer($this->sendMessage('Well?'));
        self::assertSame(['You have your money back.', []], [$answer['text'], $answer['waiting']]);
        Pillion::assertToolCalled('refund_order', 1);
    }

    public function test_the_page_shows_pending_approvals(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls()->fakeModel(['refund_order' => ['order' => 7]]);
        $id = $this->requestRefund();
        $this->get('/')->assertOk()->assertSee($id);
    }

    public function test_an_expired_approval_counts_as_denied(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls();
        $ways = [
            'decided on' => fn (string $id) => $this->decide($id, true),
            'not decided on' => fn () => $this->sendMessage('Hello?'),
        ];
        foreach ($ways as $how => $resume) {
            $this->flushSession();
            Pillion::fake()->fakeModel(['refund_order' => ['order' => 7]], 'As you like.', 'Hello.');
            $id = $this->requestRefund();
            $this->travel(3601)->seconds();
            $this->get('/')->assertDontSee($id);
            $answer = self::answer($resume($id));
            self::assertSame(['answered', []], [$answer['status'], $answer['waiting']], $how);
            self::assertSame($how === 'decided on' ? 'As you like.' : 'Hello.', $answer['text']);
        }
        Pillion::assertNothingCalled();
    }

    public function test_a_decision_cannot_be_changed(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls()
            ->fakeModel(['refund_order' => ['order' => 7]], 'Done.', 'You are welcome.');
        $id = $this->requestRefund();
        Pillion::approvals()->approve($id);
        $this->decide($id, false)->assertStatus(409);
        self::assertSame('You are welcome.', self::answer($this->sendMessage('Thank you'))['text']);
        Pillion::assertToolCalled('refund_order', 1);
    }

    public function test_a_chat_answers_one_request_at_a_time(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls()
            ->fakeModel(['refund_order' => ['order' => 7]], 'You have your money back.', 'You are welcome.');
        $id = $this->requestRefund();
        $first = $this->decide($id, true);
        // The stream has not been read yet, so the call has not run.
        $this->sendMessage('Well?')->assertStatus(409);
        $this->decide($id, true)->assertStatus(409);
        self::assertSame('You have your money back.', self::answer($first)['text']);
        self::assertSame('You are welcome.', self::answer($this->sendMessage('Thank you'))['text']);
        Pillion::assertToolCalled('refund_order', 1);
    }

    public function test_a_model_that_keeps_calling_tools_has_to_answer(): void
    {
        $call = ['order_status' => ['order' => 7]];
        Pillion::fake(['order_status' => 'on its way'])->preventStrayCalls()->fakeModel($call, $call, $call, 'On its way.');
        $answer = self::answer($this->sendMessage('Where is order 7?'));
        self::assertSame(['On its way.', 'tool_rounds'], [$answer['text'], $answer['limit']]);
        Pillion::assertToolCalled('order_status', 3);
    }

    public function test_a_user_gets_at_most_three_refunds_a_day(): void
    {
        Pillion::fake(['refund_order' => 'done'])->preventStrayCalls();
        foreach ([1, 2, 3, 4] as $time) {
            Pillion::fake()->fakeModel(['refund_order' => ['order' => $time]], 'Well.');
            $events = self::events($this->decide($this->requestRefund(), true));
            self::assertSame($time > 3 ? 'rate_limited' : null, $events[1][1]['error_code']);
        }
        Pillion::assertToolCalled('refund_order', 3);
    }

    public function test_only_configured_models_can_be_used(): void
    {
        Pillion::fake()->preventStrayCalls()->fakeModel('Hello.');
        self::assertSame('Hello.', self::answer($this->sendMessage('Hello', 'with-mcp'))['text']);
        foreach (['gpt-4.1-mini', '', null, ['function_calling' => true, 'mcp' => true]] as $model) {
            $this->postJson('/chat', ['model' => $model, 'message' => 'Hello'])->assertStatus(422);
        }
        $this->postJson('/chat', ['model' => 'with-mcp'])->assertStatus(422);
        $this->getJson('/tools?model=other')->assertStatus(422);
    }
}
