<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Illuminate\Cache\RateLimiter;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\PillionManager;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

final class LimitsTest extends TestCase
{
    /** Starts another request of the same application. */
    private function nextRequest(): void
    {
        $this->app->forgetScopedInstances();
        Pillion::clearResolvedInstances();
    }

    public function test_rate_limits_hold_across_requests_for_each_user(): void
    {
        $this->configure(['limits.rate_limits' => ['tools' => ['get_time' => ['per_minute' => 2]]]]);
        foreach ([true, true, false] as $allowed) {
            self::assertSame($allowed, Pillion::forUser('alice')->call('get_time')->success);
            $this->nextRequest();
        }
        $refused = Pillion::forUser('alice')->call('get_time');
        self::assertSame('rate_limited', $refused->errorCode);
        self::assertGreaterThan(0, $refused->metadata['retry_after']);
        self::assertTrue(Pillion::forUser('bob')->call('get_time')->success);
        self::assertTrue(Pillion::forUser('alice')->forTenant('other')->call('get_time')->success);
        $this->travel(61)->seconds();
        self::assertTrue(Pillion::forUser('alice')->call('get_time')->success);
    }

    public function test_the_limits_of_a_tool_replace_the_default_with_the_messages_of_the_executor(): void
    {
        $this->configure(['limits.rate_limits' => [
            'default' => ['per_minute' => 1],
            'tools' => ['get_time' => ['per_hour' => 2]],
        ]]);
        $this->app->make(ToolRegistry::class)->register(
            new ToolDefinition('mail', 'Sends mail', cooldownSeconds: 1),
            fn () => 'sent',
        );
        self::assertTrue(Pillion::call('get_time')->success);
        self::assertTrue(Pillion::call('get_time')->success);
        $error = Pillion::call('get_time')->error;
        self::assertMatchesRegularExpression('/^Rate limit exceeded \(per-hour\)\. Retry after \d+ seconds\.$/D', $error);
        self::assertTrue(Pillion::call('mail')->success);
        self::assertSame("Tool 'mail' is cooling down. Retry after 1 second.", Pillion::call('mail')->error);
    }

    public function test_a_rejected_call_does_not_affect_other_calls(): void
    {
        $this->configure(['limits.rate_limits' => ['default' => ['per_hour' => 1]]]);
        $calls = [['id' => 'a', 'name' => 'get_time'], ['id' => 'b', 'name' => 'get_time'], ['id' => 'c', 'name' => 'roll_dice', 'arguments' => ['notation' => '1d6']]];
        $results = Pillion::callTools($calls);
        self::assertSame([true, false, true], array_column($results, 'success'));
        self::assertSame(['a', 'b', 'c'], array_column($results, 'toolCallId'));
    }

    public function test_a_cooldown_holds_across_requests(): void
    {
        $this->app->make(ToolRegistry::class)->register(
            new ToolDefinition('mail', 'Sends mail', cooldownSeconds: 10),
            fn () => 'sent',
        );
        self::assertTrue(Pillion::call('mail')->success);
        $this->nextRequest();
        self::assertSame('rate_limited', Pillion::call('mail')->errorCode);
    }

    public function test_an_alias_does_not_bypass_the_limits_of_a_tool(): void
    {
        $this->configure([
            'limits.rate_limits' => ['tools' => ['get_time' => ['per_minute' => 1]]],
            'tools.aliases' => ['clock' => 'get_time'],
        ]);
        self::assertTrue(Pillion::call('clock')->success);
        self::assertSame('rate_limited', Pillion::call('get_time')->errorCode);
        self::assertSame('rate_limited', Pillion::call('clock')->errorCode);
    }

    public function test_a_call_that_does_not_run_does_not_count(): void
    {
        $this->configure(['limits.rate_limits' => ['default' => ['per_minute' => 1]]]);
        self::assertSame('invalid_input', Pillion::call('calculator', ['expression' => 7])->errorCode);
        self::assertSame('not_found', Pillion::call('calculat')->errorCode);
        self::assertTrue(Pillion::call('calculator', ['expression' => '6 * 7'])->success);
        self::assertSame('rate_limited', Pillion::call('calculator', ['expression' => '6 * 7'])->errorCode);
        self::assertSame('invalid_input', Pillion::call('calculator', ['expression' => 7])->errorCode);
    }

    public function test_a_pending_call_counts_once_it_is_approved(): void
    {
        $runs = 0;
        $this->app->make(ToolRegistry::class)->register(
            new ToolDefinition('wipe', 'Deletes', requiresConfirmation: true, cooldownSeconds: 60),
            function () use (&$runs): string {
                return 'wiped ' . ++$runs;
            },
        );
        $id = Pillion::call('wipe')->metadata['approval_id'];
        Pillion::approvals()->approve($id);
        self::assertSame('wiped 1', Pillion::call('wipe')->result);
        self::assertSame('approval_required', Pillion::call('wipe')->errorCode);
        Pillion::approvals()->approve($id);
        self::assertSame('rate_limited', Pillion::call('wipe')->errorCode);
        self::assertSame('rate_limited', Pillion::executor()->execute(new ToolCall('c', 'wipe', []), ['approved' => [$id]])->errorCode);
        $this->travel(61)->seconds();
        self::assertSame('wiped 2', Pillion::call('wipe')->result, 'the approval is unused');
    }

    public function test_a_rule_for_an_alias_requires_approval_before_the_call_counts(): void
    {
        $this->configure([
            'limits.rate_limits' => ['tools' => ['get_time' => ['per_minute' => 1]]],
            'tools.aliases' => ['clock' => 'get_time'],
            'approvals.tools' => ['clock' => 'always-ask', 'get_time' => 'always'],
        ]);
        $id = Pillion::call('clock')->metadata['approval_id'];
        Pillion::approvals()->approve($id);
        self::assertTrue(Pillion::call('get_time')->success);
        Pillion::call('get_time');
        Pillion::approvals()->approve($id);
        self::assertSame('rate_limited', Pillion::call('clock')->errorCode);
    }

    public function test_calls_approved_by_an_approver_count(): void
    {
        $this->configure([
            'limits.rate_limits' => ['tools' => ['get_time' => ['per_minute' => 1]]],
            'approvals.tools' => ['get_time' => 'always-ask'],
        ]);
        $answers = [false, true, true];
        $executor = Pillion::executor(['approve' => function () use (&$answers): bool {
            return array_shift($answers);
        }]);
        $call = new ToolCall('c', 'get_time', []);
        self::assertSame('denied', $executor->execute($call)->errorCode);
        self::assertTrue($executor->execute($call)->success);
        self::assertSame('rate_limited', $executor->execute($call)->errorCode);
    }

    public function test_an_approval_is_valid_for_one_of_two_equal_calls(): void
    {
        $this->configure(['approvals.tools' => ['get_time' => 'always-ask']]);
        $id = Pillion::call('get_time')->metadata['approval_id'];
        Pillion::approvals()->approve($id);
        $results = Pillion::callTools([['id' => 'a', 'name' => 'get_time'], ['id' => 'b', 'name' => 'get_time']]);
        $codes = array_column($results, 'errorCode', 'toolCallId');
        self::assertEqualsCanonicalizing([null, 'approval_required'], array_values($codes));
        self::assertSame(['a', 'b'], array_keys(array_column($results, 'success', 'toolCallId')));
        self::assertTrue(Pillion::approvals()->find($id)->isPending(), 'the other one waits');
    }

    public function test_the_application_runs_before_the_limits(): void
    {
        $this->configure(['limits.rate_limits' => ['tools' => ['get_time' => ['per_minute' => 1]]]]);
        $executor = Pillion::executor(['before' => fn (ToolCall $call, $definition, array $context): ?ToolResult
            => $context['user'] === 'alice' ? new ToolResult('', '', 'noon') : null]);
        $call = new ToolCall('c', 'get_time', []);
        self::assertSame(['noon', 'noon'], [
            $executor->execute($call, ['user' => 'alice'])->result,
            $executor->execute($call, ['user' => 'alice'])->result,
        ]);
        self::assertTrue($executor->execute($call, ['user' => 'bob'])->success);
        self::assertSame('rate_limited', $executor->execute($call, ['user' => 'bob'])->errorCode);
    }

    public function test_concurrent_calls_do_not_exceed_the_limit(): void
    {
        $this->configure(['limits.rate_limits' => ['tools' => ['get_time' => ['per_minute' => 1]]]]);
        // Another worker counts between the check and the hit.
        $limiter = new class ($this->app->make('cache')->store()) extends RateLimiter {
            public function tooManyAttempts($key, $maxAttempts): bool
            {
                parent::hit($key, 60);
                return false;
            }
        };
        $this->app->instance(RateLimiter::class, $limiter);
        self::assertSame('rate_limited', Pillion::call('get_time')->errorCode);
    }

    public function test_timeouts_are_configurable(): void
    {
        $this->configure(['limits.tool_timeouts' => ['nap' => 0.05]]);
        $this->app->make(ToolRegistry::class)->register(new ToolDefinition('nap', 'Sleeps'), function (): string {
            usleep(200_000);
            return 'rested';
        });
        self::assertSame('timeout', Pillion::call('nap')->errorCode);
    }

    public function test_the_user_is_the_logged_in_user_by_default(): void
    {
        $this->configure(['limits.rate_limits' => ['default' => ['per_minute' => 1]]]);
        $user = new class extends \Illuminate\Foundation\Auth\User {
            protected $attributes = ['id' => 5];
        };
        $this->actingAs($user);
        self::assertTrue(Pillion::call('get_time')->success);
        self::assertFalse(Pillion::forUser(5)->call('get_time')->success);
        self::assertFalse(Pillion::forUser($user)->call('get_time')->success);
        Pillion::resolveUserUsing(fn () => 'service');
        self::assertTrue($this->app->make(PillionManager::class)->call('get_time')->success);
    }
}
