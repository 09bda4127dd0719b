<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\PillionManager;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;

final class LimitsTest extends TestCase
{
    /** Another request of the same application. */
    private function nextRequest(): void
    {
        $this->app->forgetScopedInstances();
        Pillion::clearResolvedInstances();
    }

    public function test_rate_limits_hold_from_one_request_to_the_next_and_for_each_user(): void
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

    public function test_a_refused_call_does_not_touch_the_others(): void
    {
        $this->configure(['limits.rate_limits' => ['every_tool' => ['per_hour' => 1]]]);
        $calls = [['id' => 'a', 'name' => 'get_time'], ['id' => 'b', 'name' => 'get_time'], ['id' => 'c', 'name' => 'roll_dice', 'arguments' => ['notation' => '1d6']]];
        $results = Pillion::callTools($calls);
        self::assertSame([true, false, true], array_column($results, 'success'));
        self::assertSame(['a', 'b', 'c'], array_column($results, 'toolCallId'));
    }

    public function test_a_cooldown_holds_from_one_request_to_the_next(): void
    {
        $this->app->make(ToolRegistry::class)->register(
            new ToolDefinition('mail', 'Sends mail', cooldownSeconds: 10),
            fn () => 'sent',
        );
        self::assertTrue(Pillion::call('mail')->success);
        $this->nextRequest();
        self::assertSame('rate_limited', Pillion::call('mail')->errorCode);
    }

    public function test_time_limits_of_the_configuration(): void
    {
        $this->configure(['limits.tool_timeouts' => ['nap' => 0.05]]);
        $this->app->make(ToolRegistry::class)->register(new ToolDefinition('nap', 'Sleeps'), function (): string {
            usleep(200_000);
            return 'rested';
        });
        self::assertSame('timeout', Pillion::call('nap')->errorCode);
    }

    public function test_who_calls_is_who_is_logged_in_unless_the_application_says_otherwise(): void
    {
        $this->configure(['limits.rate_limits' => ['every_tool' => ['per_minute' => 1]]]);
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
