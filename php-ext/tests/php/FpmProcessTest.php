<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Tests\Support\Fpm;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\SessionServer;
use PHPUnit\Framework\TestCase;

/**
 * The lifecycle of FPM workers: every kind of pool, every way of ending, a client that disconnects.
 *
 * @group extension
 */
final class FpmProcessTest extends TestCase
{
    private const SCRIPT = __DIR__ . '/fpm/wait.php';

    private const ONE = ['pm = static', 'pm.max_children = 1'];

    private ?Fpm $pool = null;

    private SessionServer $server;

    protected function setUp(): void
    {
        $this->server = new SessionServer();
    }

    protected function tearDown(): void
    {
        $this->pool?->stop();
        $this->server->stop();
    }

    /**
     * @param array<string, string> $query
     *
     * @return array{process: int, done: bool, session: string, authorization: ?string}
     */
    private function ask(array $query = []): array
    {
        return $this->read($this->pool->get(self::SCRIPT, $query + ['url' => $this->server->url]));
    }

    /** @return array{process: int, done: bool, session: string, authorization: ?string} */
    private function read(string $answer): array
    {
        $seen = json_decode($answer, true);
        self::assertIsArray($seen, $answer . $this->pool->log());
        return $seen;
    }

    /** @return array<string, array{list<string>}> */
    public static function kinds(): array
    {
        return [
            'static' => [['pm = static', 'pm.max_children = 2']],
            'dynamic' => [['pm = dynamic', 'pm.max_children = 3', 'pm.start_servers = 1', 'pm.min_spare_servers = 1', 'pm.max_spare_servers = 2']],
            'ondemand' => [['pm = ondemand', 'pm.max_children = 2', 'pm.process_idle_timeout = 10s']],
        ];
    }

    /**
     * @dataProvider kinds
     *
     * @param list<string> $kind
     */
    public function testEachWorkerHasASessionForEachUser(array $kind): void
    {
        $this->pool = new Fpm($kind);
        $sessions = [];
        for ($round = 0; $round < 12; $round++) {
            $user = ['alice', 'bob', 'carol'][$round % 3];
            $seen = $this->ask(['user' => $user]);
            self::assertSame("Bearer $user", $seen['authorization']);
            $sessions["{$seen['process']} $user"][$seen['session']] = true;
        }
        // While one worker is busy, another worker has to answer.
        $started = $this->pool->path('started');
        $query = ['url' => $this->server->url, 'user' => 'alice', 'seconds' => '3', 'started' => $started];
        $busy = $this->pool->start(self::SCRIPT, $query);
        self::assertTrue(Process::waitFor(fn () => file_exists($started)));
        $other = $this->ask(['user' => 'alice']);
        foreach ([$other, $this->read($this->pool->finish($busy))] as $seen) {
            $sessions["{$seen['process']} alice"][$seen['session']] = true;
        }
        foreach ($sessions as $whose => $ids) {
            self::assertCount(1, $ids, $whose);
        }
        self::assertGreaterThan(3, count($sessions));
        $ids = array_merge(...array_map('array_keys', array_values($sessions)));
        self::assertCount(count($ids), array_unique($ids), 'neither users nor workers share a session');
        self::assertEqualsCanonicalizing($ids, $this->server->seen()['opened']);
    }

    public function testAReplacedWorkerEndsItsSessions(): void
    {
        $this->pool = new Fpm([...self::ONE, 'pm.max_requests = 2']);
        $seen = [$this->ask(), $this->ask(), $this->ask(), $this->ask(), $this->ask()];
        self::assertCount(3, array_unique(array_column($seen, 'process')));
        self::assertCount(3, array_unique(array_column($seen, 'session')));
        $ended = $this->server->seenWhen(fn ($seen) => count($seen['ended']) === 2)['ended'];
        self::assertEqualsCanonicalizing([$seen[0]['session'], $seen[2]['session']], $ended);
    }

    public function testAReloadLetsRequestsFinish(): void
    {
        $this->pool = new Fpm(['pm = static', 'pm.max_children = 2'], ['process_control_timeout = 20s']);
        $before = $this->ask();
        $started = $this->pool->path('started');
        $waiting = $this->pool->start(self::SCRIPT, ['url' => $this->server->url, 'seconds' => '1', 'started' => $started]);
        self::assertTrue(Process::waitFor(fn () => file_exists($started)));
        $old = $this->pool->workers();
        $this->pool->signal(SIGUSR2);
        self::assertTrue($this->read($this->pool->finish($waiting))['done']);
        $gone = fn () => array_intersect($old, $this->pool->workers()) === [] && count($this->pool->workers()) === 2;
        self::assertTrue(Process::waitFor($gone), $this->pool->log());
        $after = $this->ask();
        self::assertNotContains($after['process'], $old);
        self::assertNotSame($before['session'], $after['session']);
        $seen = $this->server->seenWhen(fn ($seen) => count($seen['ended']) === count($seen['opened']) - 1);
        self::assertEqualsCanonicalizing(array_diff($seen['opened'], [$after['session']]), $seen['ended']);
    }

    public function testAGracefulStopLetsRequestsFinish(): void
    {
        $this->pool = new Fpm(self::ONE, ['process_control_timeout = 20s']);
        $started = $this->pool->path('started');
        $waiting = $this->pool->start(self::SCRIPT, ['url' => $this->server->url, 'seconds' => '1', 'started' => $started]);
        self::assertTrue(Process::waitFor(fn () => file_exists($started)));
        $this->pool->signal(SIGQUIT);
        self::assertTrue($this->read($this->pool->finish($waiting))['done']);
        self::assertTrue(Process::waitFor(fn () => !$this->pool->isRunning()));
        $seen = $this->server->seenWhen(fn ($seen) => $seen['ended'] !== []);
        self::assertSame([1, $seen['opened']], [count($seen['ended']), $seen['ended']]);
    }

    public function testRequestTerminateTimeoutKillsTheWorkerAndTheNextOneWorks(): void
    {
        $this->pool = new Fpm([...self::ONE, 'request_terminate_timeout = 3s']);
        $before = $this->ask();
        $started = microtime(true);
        $answer = $this->pool->get(self::SCRIPT, ['url' => $this->server->url, 'seconds' => '25']);
        self::assertStringNotContainsString('"done":true', $answer);
        self::assertLessThan(20, microtime(true) - $started);
        $after = $this->ask();
        self::assertNotSame($before['process'], $after['process']);
        self::assertTrue($after['done']);
    }

    /** @return array<string, array{bool, bool}> */
    public static function waits(): array
    {
        return [
            'an MCP server, Unix socket' => [false, false],
            'an MCP server, TCP' => [true, false],
            'the sidecar, Unix socket' => [false, true],
        ];
    }

    /** @dataProvider waits */
    public function testADisconnectedClientEndsTheWait(bool $tcp, bool $sidecar): void
    {
        $this->pool = new Fpm(self::ONE, [], [], $tcp);
        $before = $this->ask();
        $silent = $this->pool->path('silent.sock');
        $listener = stream_socket_server("unix://$silent");
        $note = $this->pool->path('note');
        $started = $this->pool->path('started');
        $query = ['url' => $this->server->url, 'seconds' => '25', 'note' => $note, 'started' => $started];
        $request = $this->pool->start(self::SCRIPT, $query + ($sidecar ? ['socket' => $silent] : []));
        self::assertTrue(Process::waitFor(fn () => file_exists($started)));
        usleep(200_000);
        $left = microtime(true);
        $this->pool->leave($request);
        self::assertTrue(Process::waitFor(fn () => file_exists($note)), $this->pool->log());
        self::assertLessThan(15, microtime(true) - $left);
        $seen = json_decode((string) file_get_contents($note), true);
        self::assertSame([CONNECTION_ABORTED, false], [$seen['status'], $seen['done']]);
        // The same worker is free, and its session is still open.
        self::assertSame($before, $this->ask());
        fclose($listener);
    }

    /** @return array<string, array{string}> */
    public static function reasonsToGoOn(): array
    {
        return ['ignore_user_abort' => ['ignore'], 'fastcgi_finish_request' => ['finish']];
    }

    /** @dataProvider reasonsToGoOn */
    public function testTheWaitContinuesWithoutAConnectedClient(string $reason): void
    {
        $this->pool = new Fpm(self::ONE);
        $note = $this->pool->path('note');
        $started = $this->pool->path('started');
        $query = ['url' => $this->server->url, 'seconds' => '1.5', 'note' => $note, 'started' => $started, $reason => '1'];
        $request = $this->pool->start(self::SCRIPT, $query);
        self::assertTrue(Process::waitFor(fn () => file_exists($started)));
        $this->pool->leave($request);
        self::assertTrue(Process::waitFor(fn () => file_exists($note)), $this->pool->log());
        self::assertTrue(json_decode((string) file_get_contents($note), true)['done']);
    }

    public function testTheConfigurationOfThePoolIsChecked(): void
    {
        $this->pool = new Fpm([
            ...self::ONE, 'php_admin_value[pillion.max_sessions] = 1', 'php_value[pillion.timeout_ms] = soon',
        ]);
        $first = [$this->ask(['user' => 'alice']), $this->ask(['user' => 'alice'])];
        self::assertSame($first[0], $first[1]);
        $this->ask(['user' => 'bob']);
        self::assertNotSame($first[0]['session'], $this->ask(['user' => 'alice'])['session']);
        $seen = $this->server->seenWhen(fn ($seen) => count($seen['ended']) === 2);
        self::assertCount(2, $seen['ended']);
        self::assertCount(3, $seen['opened']);
    }

    public function testPreloadingInTheMasterLeavesTheWorkersFree(): void
    {
        $preload = tempnam(sys_get_temp_dir(), 'pillion');
        file_put_contents($preload, sprintf(
            '<?php final class Preloaded extends Pillion\MCPSSEClient {} (new Preloaded(%s))->callTool("who");',
            var_export($this->server->url, true),
        ));
        chmod($preload, 0644);
        $this->pool = new Fpm(['pm = static', 'pm.max_children = 2'], [], [
            'zend_extension=opcache', "opcache.preload=$preload", 'opcache.jit=tracing', 'opcache.jit_buffer_size=16M',
            'opcache.preload_user=' . posix_getpwuid(posix_geteuid())['name'],
        ]);
        $seen = [$this->ask(), $this->ask(), $this->ask()];
        unlink($preload);
        $masters = $this->server->seen()['opened'][0];
        self::assertNotContains($masters, array_column($seen, 'session'));
        self::assertSame([true, true, true], array_column($seen, 'done'));
    }
}
