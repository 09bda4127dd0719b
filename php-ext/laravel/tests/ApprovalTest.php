<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Illuminate\Support\Facades\Artisan;
use Illuminate\Support\Facades\Event;
use PHPUnit\Framework\Attributes\DataProvider;
use Pillion\DmcpTool;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\NotFoundException;
use Pillion\Laravel\Approvals\Approval;
use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Approvals\ApprovalStatus;
use Pillion\Laravel\Contracts\ApprovalStore;
use Pillion\Laravel\Events\ApprovalDecided;
use Pillion\Laravel\Events\ApprovalRequested;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\Tests\Fixtures\LabelledTool;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\ToolRegistry;

/** Approvals (G1 to G3), in both stores. */
final class ApprovalTest extends TestCase
{
    /** @return array<string, array{string}> */
    public static function stores(): array
    {
        return ['cache' => ['cache'], 'database' => ['database']];
    }

    private function use(string $driver): void
    {
        $this->configure(['approvals.driver' => $driver, 'approvals.tools' => ['delete' => 'always-ask']]);
        if ($driver === 'database') {
            Artisan::call('vendor:publish --tag=pillion-migrations');
            Artisan::call('migrate');
        }
        Pillion::fake(['delete' => 'deleted']);
    }

    /** @dataProvider stores */
    #[DataProvider('stores')]
    public function test_g3_a_call_waits_until_it_is_approved_and_then_runs_once(string $driver): void
    {
        $this->use($driver);
        $alice = Pillion::forUser('alice');
        $waiting = $alice->call('delete', ['what' => 'all']);
        self::assertSame('approval_required', $waiting->errorCode);
        Pillion::assertNothingCalled();

        $pending = Pillion::approvals()->pending();
        self::assertCount(1, $pending);
        self::assertSame($waiting->metadata['approval_id'], $pending[0]->id);
        self::assertSame(['delete', ['what' => 'all'], 'alice'], [$pending[0]->tool, $pending[0]->arguments, $pending[0]->user]);
        self::assertEquals($pending, Pillion::approvals()->pendingFor('alice'));
        self::assertSame([], Pillion::approvals()->pendingFor('bob'));
        self::assertSame([], Pillion::approvals()->pendingFor(null), 'no user is not every user');

        $approved = Pillion::approvals()->approve($pending[0]->id, by: 'carol');
        self::assertSame(['carol', ApprovalStatus::Approved], [$approved->decidedBy, $approved->status]);
        self::assertSame([], Pillion::approvals()->pending());

        // The approval is valid only for these arguments, this user and one call.
        self::assertSame('approval_required', $alice->call('delete', ['what' => 'some'])->errorCode);
        self::assertSame('approval_required', Pillion::forUser('bob')->call('delete', ['what' => 'all'])->errorCode);
        self::assertSame('deleted', $alice->call('delete', ['what' => 'all'])->result);
        self::assertSame('approval_required', $alice->call('delete', ['what' => 'all'])->errorCode);
        Pillion::assertToolCalled('delete', 1);
    }

    /** @dataProvider stores */
    #[DataProvider('stores')]
    public function test_g3_an_approver_changes_the_arguments(string $driver): void
    {
        $this->use($driver);
        $ran = [];
        Pillion::fake(['delete' => function (array $arguments) use (&$ran) {
            $ran[] = $arguments;
            return 'deleted';
        }]);
        $id = Pillion::call('delete', ['what' => 'all'])->metadata['approval_id'];
        $approval = Pillion::approvals()->approve($id, by: 'carol', arguments: ['what' => 'some']);
        self::assertSame([['what' => 'all'], ['what' => 'some']], [$approval->arguments, $approval->approvedArguments]);
        self::assertEquals($approval, Pillion::approvals()->find($id));
        $result = Pillion::call('delete', ['what' => 'all']);
        self::assertSame(['deleted', ['what' => 'some']], [$result->result, $result->metadata['approved_arguments']]);
        self::assertSame([['what' => 'some']], $ran);
        self::assertSame('approval_required', Pillion::call('delete', ['what' => 'all'])->errorCode);

        $file = tempnam(sys_get_temp_dir(), 'pillion');
        file_put_contents($file, '{"what": "none"}');
        $approve = fn (string $arguments) => Artisan::call('pillion:approvals', ['action' => 'approve', 'id' => $id, '--arguments' => $arguments]);
        self::assertSame([1, 1], [$approve('[1]'), $approve('@/nowhere')]);
        self::assertSame(0, $approve("@$file"), Artisan::output());
        unlink($file);
        self::assertSame('deleted', Pillion::call('delete', ['what' => 'all'])->result);
        self::assertSame(['what' => 'none'], end($ran));
    }

    /** @dataProvider stores */
    #[DataProvider('stores')]
    public function test_g3_the_model_receives_a_denial(string $driver): void
    {
        $this->use($driver);
        $id = Pillion::call('delete')->metadata['approval_id'];
        Pillion::approvals()->deny($id, by: 7);
        self::assertSame('denied', Pillion::call('delete')->errorCode);
        Pillion::assertNothingCalled();
        self::assertSame('approval_required', Pillion::call('delete')->errorCode, 'a denial holds for one call too');
    }

    /** @dataProvider stores */
    #[DataProvider('stores')]
    public function test_an_approval_expires(string $driver): void
    {
        $this->use($driver);
        $id = Pillion::call('delete')->metadata['approval_id'];
        $this->travel(3601)->seconds();
        self::assertNull(Pillion::approvals()->find($id));
        self::assertSame([], Pillion::approvals()->pending());
        Expect::exception(NotFoundException::class, fn () => Pillion::approvals()->approve($id));
        self::assertSame('approval_required', Pillion::call('delete')->errorCode);
        Pillion::approvals()->approve($id);
        $this->travel(3601)->seconds();
        self::assertSame('approval_required', Pillion::call('delete')->errorCode, 'an approval that was not used');
    }

    /** @dataProvider stores */
    #[DataProvider('stores')]
    public function test_the_number_of_pending_calls_is_limited(string $driver): void
    {
        $this->use($driver);
        $this->configure(['approvals.max_pending' => 3, 'approvals.max_pending_per_user' => '2']);
        $delete = fn (?string $user, string $what) => ($user === null ? app(PillionManager::class) : Pillion::forUser($user))->call('delete', ['what' => $what]);
        $first = $delete('alice', 'a');
        self::assertSame(['approval_required', 'approval_required'], [$first->errorCode, $delete('alice', 'b')->errorCode]);
        $refused = $delete('alice', 'c');
        self::assertSame('rate_limited', $refused->errorCode);
        self::assertSame('2 calls of this user already wait for approval: approve or deny one of them first', $refused->error);
        self::assertArrayNotHasKey('approval_id', $refused->metadata);
        self::assertSame('approval_required', $delete('alice', 'a')->errorCode, 'it waits already');
        self::assertSame('approval_required', $delete(null, 'a')->errorCode);
        $refused = $delete('bob', 'a');
        self::assertSame(['rate_limited', '3 calls already wait for approval: approve or deny one of them first'], [$refused->errorCode, $refused->error]);
        self::assertCount(3, Pillion::approvals()->pending());

        Pillion::approvals()->approve($first->metadata['approval_id']);
        self::assertSame('deleted', $delete('alice', 'a')->result);
        self::assertSame('approval_required', $delete('bob', 'a')->errorCode);
        $this->travel(3601)->seconds();
        self::assertSame('approval_required', $delete('alice', 'c')->errorCode, 'what has lapsed does not wait');

        $this->configure(['approvals.max_pending' => null, 'approvals.max_pending_per_user' => 0]);
        $this->expectExceptionMessage('pillion.approvals.max_pending_per_user must be a whole number above zero, or null');
        $delete('alice', 'd');
    }

    public function test_a_custom_store_need_not_count(): void
    {
        $this->use('cache');
        $this->configure(['approvals.max_pending_per_user' => 1]);
        $inner = $this->app->make(ApprovalStore::class);
        $this->app->instance(ApprovalStore::class, new class ($inner) implements ApprovalStore {
            public function __construct(private readonly ApprovalStore $inner)
            {
            }

            public function add(Approval $approval): bool
            {
                return $this->inner->add($approval);
            }

            public function find(?string $tenant, string $id): ?Approval
            {
                return $this->inner->find($tenant, $id);
            }

            public function pending(?string $tenant, ?string $user = null): array
            {
                return $this->inner->pending($tenant, $user);
            }

            public function decide(?string $tenant, string $id, ApprovalStatus $status, ?string $by): ?Approval
            {
                return $this->inner->decide($tenant, $id, $status, $by);
            }

            public function take(?string $tenant, string $id): ?ApprovalStatus
            {
                return $this->inner->take($tenant, $id);
            }
        });
        $codes = array_map(fn (string $what) => Pillion::call('delete', ['what' => $what])->errorCode, ['a', 'b', 'a']);
        self::assertSame(['approval_required', 'rate_limited', 'approval_required'], $codes);
        self::assertSame('approval_required', Pillion::forUser('alice')->call('delete')->errorCode);
    }

    public function test_expired_approvals_are_deleted(): void
    {
        $this->use('database');
        foreach (['a', 'b', 'c'] as $what) {
            Pillion::call('delete', ['what' => $what]);
        }
        $table = fn () => $this->app->make('db')->connection(config('pillion.approvals.connection'))->table('pillion_approvals');
        self::assertSame(3, $table()->count());
        $this->travel(3601)->seconds();
        $id = Pillion::call('delete', ['what' => 'd'])->metadata['approval_id'];
        self::assertSame([$id], $table()->pluck('id')->all());
    }

    /** @dataProvider stores */
    #[DataProvider('stores')]
    public function test_the_store_makes_each_change_once(string $driver): void
    {
        $this->use($driver);
        $store = $this->app->make(ApprovalStore::class);
        $approval = new Approval('x', 'tool', [], null, ApprovalStatus::Pending, time(), time() + 60);
        self::assertTrue($store->add($approval));
        self::assertFalse($store->add($approval));
        self::assertEquals($approval, $store->find(null, 'x'));
        self::assertSame('{}', json_encode(json_decode((string) json_encode($store->find(null, 'x')))->arguments));
        self::assertNull($store->take(null, 'x'));
        self::assertNotNull($store->decide(null, 'x', ApprovalStatus::Approved, 'me'));
        self::assertNull($store->decide(null, 'x', ApprovalStatus::Denied, 'me'));
        self::assertSame(ApprovalStatus::Approved, $store->take(null, 'x'));
        self::assertNull($store->take(null, 'x'));
        self::assertNull($store->find(null, 'x'));
    }

    /** @dataProvider stores */
    #[DataProvider('stores')]
    public function test_g3_tenants_share_no_approvals(string $driver): void
    {
        $this->use($driver);
        $now = 'a';
        Pillion::resolveTenantUsing(function () use (&$now): ?string {
            return $now;
        });
        $call = fn () => Pillion::forUser(1)->call('delete', ['what' => 'all']);
        $id = $call()->metadata['approval_id'];
        self::assertSame('a', Pillion::approvals()->find($id)->tenant);

        foreach (['b', null] as $now) {
            self::assertNull(Pillion::approvals()->find($id));
            self::assertSame([], Pillion::approvals()->pending());
            self::assertSame([], app(Approvals::class)->pending());
            Expect::exception(NotFoundException::class, fn () => Pillion::approvals()->approve($id));
        }
        $now = 'a';
        Pillion::approvals()->approve($id);
        foreach (['b', null] as $now) {
            $waiting = $call();
            self::assertSame(['approval_required', $id], [$waiting->errorCode, $waiting->metadata['approval_id']]);
            self::assertCount(1, Pillion::approvals()->pending());
        }
        Pillion::forTenant('b')->approvals()->deny($id);
        self::assertSame('deleted', Pillion::forTenant('a')->forUser(1)->call('delete', ['what' => 'all'])->result);
        self::assertSame('denied', Pillion::forTenant('b')->forUser(1)->call('delete', ['what' => 'all'])->errorCode);
    }

    public function test_pending_without_a_user_lists_nothing(): void
    {
        $this->use('cache');
        Pillion::call('delete');
        self::assertCount(1, Pillion::approvals()->pending());
        self::assertSame([], Pillion::approvals()->pendingFor(null));
        self::assertSame([], Pillion::approvals()->pendingFor(''));
        Expect::exception(\ArgumentCountError::class, fn () => Pillion::approvals()->pending(null));
    }

    public function test_events(): void
    {
        $this->use('cache');
        Event::fake([ApprovalRequested::class, ApprovalDecided::class]);
        $id = Pillion::call('delete')->metadata['approval_id'];
        Pillion::call('delete');
        Event::assertDispatchedTimes(ApprovalRequested::class, 1);
        Pillion::approvals()->approve($id, by: 'carol');
        Event::assertDispatched(ApprovalDecided::class, fn (ApprovalDecided $event) => $event->approval->decidedBy === 'carol');
    }

    public function test_g1_policies(): void
    {
        Pillion::fake();
        $this->configure(['approvals.policy' => 'always-ask']);
        self::assertSame('approval_required', Pillion::call('get_time')->errorCode);
        $this->configure(['approvals.policy' => 'trusted-only', 'approvals.trusted_tools' => ['get_time']]);
        self::assertTrue(Pillion::call('get_time')->success);
        self::assertSame('approval_required', Pillion::call('echo')->errorCode);
    }

    public function test_g2_a_server_may_require_approval(): void
    {
        $this->configure(['servers' => [
            'dice' => ['url' => 'http://127.0.0.1:9/mcp', 'require_approval' => 'always'],
            'free' => ['url' => 'http://127.0.0.1:9/mcp'],
        ]]);
        Pillion::fake(['dice_roll' => 6, 'free_roll' => 5])->preventStrayCalls();
        self::assertSame('approval_required', Pillion::call('dice_roll')->errorCode);
        self::assertSame(5, Pillion::call('free_roll')->result);
    }

    /** @dataProvider entries */
    #[DataProvider('entries')]
    public function test_g2_the_entry_of_a_tool_class_applies(mixed $setting, string $policy, string $code): void
    {
        $this->configure(['approvals.policy' => $policy]);
        // No server listens there.
        $entry = ['server_label' => 'away', 'server_url' => 'http://127.0.0.1:9/mcp', 'require_approval' => $setting];
        app(ToolRegistry::class)->register(new DmcpTool($entry));
        self::assertSame($code, Pillion::call('dmcp_roll_dice', ['dice' => '1d20'])->errorCode);
    }

    /** @return iterable<string, array{mixed, string, string}> */
    public static function entries(): iterable
    {
        $names = fn (string $name) => ['tool_names' => [$name]];
        foreach ([
            ['always', 'auto', 'approval_required'],
            [['always' => $names('dmcp_roll_dice')], 'auto', 'approval_required'],
            [['never' => $names('another')], 'auto', 'approval_required'],
            [['never' => $names('dmcp_roll_dice')], 'always-ask', 'unavailable'],
            ['never', 'always-ask', 'unavailable'],
            [null, 'auto', 'unavailable'],
            [null, 'always-ask', 'approval_required'],
        ] as $case) {
            yield json_encode($case) => $case;
        }
    }

    public function test_g2_the_entry_of_a_tool_applies_to_no_other_tool_of_its_label(): void
    {
        $tool = fn (string $name, mixed $setting) => new LabelledTool($name, ['server_label' => 'shop', 'require_approval' => $setting]);
        $registry = app(ToolRegistry::class);
        $registry->register($tool('delete', 'always'));
        $registry->register($tool('erase', ['always' => ['tool_names' => ['erase']]]));
        $registry->register($tool('read', 'auto'));
        $registry->register($tool('list', ['never' => ['tool_names' => ['list']]]));
        $codes = array_map(fn (string $name) => Pillion::call($name)->errorCode, ['delete', 'erase', 'read', 'list']);
        self::assertSame(['approval_required', 'approval_required', null, null], $codes);
    }

    public function test_g2_a_list_of_a_registered_server_applies_to_the_listed_tools(): void
    {
        $setting = ['always' => ['tool_names' => ['roll']]];
        app(ToolRegistry::class)->registerMcpServer(
            ['server_label' => 'dice', 'server_url' => FakeServer::url(), 'require_approval' => $setting],
            prefix: 'shop_',
        );
        self::assertSame('approval_required', Pillion::call('shop_roll', ['dice' => '1d20'])->errorCode);
        self::assertTrue(Pillion::call('shop_echo', ['text' => 'x'])->success);
    }

    public function test_g3_a_conversation_waits_and_continues(): void
    {
        $this->use('cache');
        $tools = Pillion::forModel(['function_calling' => true]);
        $calls = array_map(fn (string $id) => [
            'id' => $id,
            'type' => 'function',
            'function' => ['name' => $id === 'c1' ? 'get_time' : 'delete', 'arguments' => '{}'],
        ], ['c1', 'c2']);
        $responses = [
            ['choices' => [['message' => ['role' => 'assistant', 'content' => null, 'tool_calls' => $calls]]]],
            ['choices' => [['message' => ['role' => 'assistant', 'content' => 'Done.']]]],
        ];
        $send = function () use (&$responses): array {
            return array_shift($responses);
        };
        $conversation = $tools->conversation([['role' => 'user', 'content' => 'Delete it']])->run($tools, $send);
        self::assertTrue($conversation->isWaiting());
        self::assertNull($conversation->text());
        $ids = array_keys($conversation->waitingFor());
        self::assertSame('delete', $conversation->waitingFor()[$ids[0]]->name);

        $conversation = unserialize(serialize($conversation));
        self::assertTrue($conversation->run($tools, $send)->isWaiting(), 'the approval is undecided');
        Pillion::approvals()->approve($ids[0]);
        self::assertSame('Done.', $conversation->run($tools, $send)->text());
        self::assertSame(['user', 'assistant', 'tool', 'tool', 'assistant'], array_column($conversation->messages(), 'role'));
        Pillion::assertToolCalled('delete', 1);
        Pillion::assertToolCalled('get_time', 1);
    }

    /**
     * @dataProvider badApprovals
     *
     * @param array<string, mixed> $settings
     */
    #[DataProvider('badApprovals')]
    public function test_a_bad_setting_allows_no_call(array $settings, string $key): void
    {
        $this->configure($settings);
        Expect::exception(InvalidInputException::class, fn () => Pillion::call('get_time'), "pillion.$key");
    }

    /** @return iterable<string, array{array<string, mixed>, string}> */
    public static function badApprovals(): iterable
    {
        foreach (['', 'allways-ask', null, true, false, 1, ['always-ask']] as $policy) {
            yield 'policy ' . json_encode($policy) => [['approvals.policy' => $policy], 'approvals.policy'];
        }
        yield 'misspelled policy' => [['approvals' => ['polcy' => 'always-ask']], 'approvals.polcy'];
        yield 'misspelled tools' => [['approvals' => ['tool' => ['get_time' => 'always-ask']]], 'approvals.tool'];
        yield 'misspelled limit' => [['limits' => ['rate_limit' => ['default' => ['per_minute' => 1]]]], 'limits.rate_limit'];
        yield 'policy of a tool' => [['approvals.tools' => ['get_time' => 'allways']], 'approvals.tools'];
        yield 'no array' => [['approvals' => 'always-ask'], 'approvals'];
    }
}
