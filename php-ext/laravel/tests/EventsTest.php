<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Illuminate\Support\Facades\Event;
use Pillion\Event\ServerConnected;
use Pillion\Event\ToolCallFinished;
use Pillion\Event\ToolCallStarted;
use Pillion\Event\ToolsListed;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Tests\Fixtures\RollDice;
use Pillion\Tests\Support\FakeServer;

final class EventsTest extends TestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        $this->configure(['log.channel' => 'pillion', 'servers' => ['dice' => ['url' => FakeServer::url()]]]);
    }

    public function test_calls_of_a_server_are_events(): void
    {
        Event::fake();
        Pillion::server('dice')->callTool('roll', ['dice' => '1d6']);
        Event::assertDispatched(ToolCallStarted::class, fn (ToolCallStarted $event) => $event->toolName === 'roll');
        Event::assertDispatched(ToolCallFinished::class, fn (ToolCallFinished $event) => $event->success && $event->server === 'dice');
    }

    public function test_calls_of_the_applications_tools_are_events(): void
    {
        $seen = [];
        Event::listen(ToolCallFinished::class, function (ToolCallFinished $event) use (&$seen): void {
            $seen[] = [$event->toolName, $event->errorCode];
        });
        Pillion::call('calculator', ['expression' => '1 + 1']);
        Pillion::call('calculator', ['expression' => '1/0']);
        Pillion::call('dice_roll', ['dice' => '1d6']);
        self::assertSame(['calculator', 'calculator', 'dice_roll'], array_column($seen, 0));
        self::assertNull($seen[0][1]);
        self::assertNotNull($seen[1][1]);
    }

    public function test_lists_of_tools_are_separate_for_tenants(): void
    {
        $lists = [];
        Event::listen(ToolsListed::class, function (ToolsListed $event) use (&$lists): void {
            $lists[] = $event->fromCache;
        });
        foreach (['acme', 'acme', 'other', 'acme'] as $tenant) {
            self::assertTrue(Pillion::forTenant($tenant)->registry()->has('dice_roll'));
            $this->app->forgetScopedInstances();
        }
        self::assertSame([false, true, false, true], $lists);
    }

    public function test_lists_of_tools_are_separate_for_users_with_their_own_tokens(): void
    {
        $this->needsTheExtension();
        $lists = [];
        Event::listen(ToolsListed::class, function (ToolsListed $event) use (&$lists): void {
            $lists[] = $event->fromCache;
        });
        Pillion::authenticateUsing('dice', fn (?string $user) => 'one token for all');
        foreach (['alice', 'bob', 'bob'] as $user) {
            Pillion::forTenant('acme')->forUser($user)->registry();
            $this->app->forgetScopedInstances();
        }
        self::assertSame([false, false, true], $lists);
    }

    public function test_sessions_end_with_a_request_or_job_if_configured(): void
    {
        $this->needsTheExtension();
        $seen = [];
        Event::listen(ServerConnected::class, function () use (&$seen): void {
            $seen[] = 'connected';
        });
        $call = fn (string $user) => Pillion::forUser($user)->server('dice')->callTool('roll', ['dice' => '1d6']);
        $this->configure(['disconnect_on_terminate' => true, 'servers.dice.options' => ['headers' => ['x-test' => __FUNCTION__]]]);
        $call('alice');
        $call('bob');
        self::assertCount(1, $seen, 'they share a session, since they share a credential');
        $this->app->terminate();
        $call('alice');
        self::assertCount(2, $seen);
        dispatch(new RollDice(Pillion::server('dice')));
        self::assertCount(2, $seen, 'no session has ended meanwhile');
        $call('alice');
        self::assertCount(3, $seen, 'the end of the job did');

        $this->configure(['disconnect_on_terminate' => false]);
        $this->app->forgetScopedInstances();
        Pillion::clearResolvedInstances();
        $call('alice');
        $this->app->terminate();
        $call('alice');
        self::assertCount(3, $seen, 'sessions stay warm');
    }
}
