<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\PillionException;
use Pillion\Tests\Support\FastCgi;
use Pillion\Tests\Support\Fpm;
use Pillion\Tests\Support\Peer;
use PHPUnit\Framework\TestCase;

/**
 * Two FPM workers under load: many requests with a tool call each to a real MCP server, workers
 * that exit after their maximum of requests, a reload, and a restart of the server.
 * `PILLION_FPM_REQUESTS` sets the number of requests, 10,000 for the full test, which also prints
 * its figures to stderr.
 *
 * @group endurance
 *
 * @group extension
 */
final class FpmEnduranceTest extends TestCase
{
    private const SCRIPT = __DIR__ . '/fpm/endurance.php';
    private const REQUESTS = 2_000;
    /** The maximum growth of a worker's memory between its first and its last quarter. */
    private const GROWTH_KB = 512;

    /** Seconds until the server is back and each worker has retried it; the backoff is at most 30 s. */
    private const RECOVERY_TIMEOUT = 120;

    private Fpm $fpm;
    private Peer $server;
    private string $url;
    private int $requests;

    /** @var array<int, list<array{memory_kb: int, descriptors: int, threads: int}>> by process */
    private array $workers = [];

    /** @var array<string, int> how often each exception came while the server was away */
    private array $exceptions = [];

    private bool $isServerAway = false;

    /** @var array<int, true>|null which workers met the restarted server; null before the restart */
    private ?array $recovered = null;

    protected function setUp(): void
    {
        Peer::need('everything');
        $this->requests = (int) getenv('PILLION_FPM_REQUESTS') ?: self::REQUESTS;
        $this->server = new Peer('everything');
        $this->url = (string) $this->server->startedUrl();
        // Each worker exits at about the end of the first half.
        $this->fpm = Fpm::withWorkers(2, ['pm.max_requests = ' . intdiv($this->requests, 4)]);
    }

    protected function tearDown(): void
    {
        if (isset($this->fpm)) {
            $this->fpm->stop();
            $this->server->stop();
        }
    }

    public function testEveryResponseIsRightOrAClearErrorAndNothingGrows(): void
    {
        $started = microtime(true);
        $calm = intdiv($this->requests, 2);
        $kept = new FastCgi($this->fpm->address, connections: 2, keepAlive: true);
        $this->send($kept, 0, $calm);
        $kept->close();
        self::assertLessThanOrEqual(6, $kept->repeated, 'reused connections are lost only when a worker exits');

        $single = new FastCgi($this->fpm->address, connections: 4);
        $this->send($single, $calm, $reloaded = (int) ($this->requests * 0.65));
        self::assertGreaterThanOrEqual(4, count($this->workers), 'workers retired');
        $before = $this->workers;
        // Like `systemctl reload`: the master restarts, then its workers.
        $this->fpm->signal(SIGUSR2);
        $this->send($single, $reloaded, $restart = (int) ($this->requests * 0.8));
        $new = array_diff($this->fpm->workers(), array_keys($before));
        self::assertCount(2, $new, 'after the reload there are two new workers');

        $this->server->stop();
        $this->server->start();
        [$this->isServerAway, $this->recovered] = [true, []];
        for ($next = $restart, $end = microtime(true) + self::RECOVERY_TIMEOUT; count($this->recovered) < 2; $next += 20) {
            self::assertLessThan($end, microtime(true), 'a worker does not find the server again');
            $this->send($single, $next, $next + 20);
        }
        $this->send($single, $next, max($next, $this->requests));

        self::assertFalse($this->fpm->hasZombie(), $this->fpm->log());
        self::assertCount(2, $this->fpm->workers());
        self::assertDoesNotMatchRegularExpression('/SIGSEGV|SIGABRT|SIGKILL|SIGBUS|WARNING/', $this->fpm->log());
        $this->assertNothingGrew();
        $this->report(microtime(true) - $started, $kept->repeated);
    }

    private function send(FastCgi $client, int $from, int $to): void
    {
        $query = fn (int $number) => ['url' => $this->url, 'message' => "number $number"];
        $client->run(self::SCRIPT, $from, $to, $query, $this->check(...));
    }

    private function check(int $number, string $body): void
    {
        $seen = json_decode($body, true);
        self::assertIsArray($seen, "request $number: $body");
        $this->workers[$seen['process']][] = $seen;
        if ($this->recovered !== null && count($this->recovered) < 2) {
            // Slower, because an outage with thousands of errors shows no more than one with a hundred.
            usleep(10_000);
            $this->isServerAway = $this->isServerAway && $this->server->startedUrl() === null;
        }
        if (isset($seen['answer'])) {
            self::assertSame("Echo: number $number", $seen['answer']);
            if ($this->recovered !== null && !$this->isServerAway) {
                $this->recovered[$seen['process']] = true;
            }
            return;
        }
        // The client waits a few seconds for a server that restarts. After a longer outage it backs off:
        // until the backoff ends, and once more after that, a worker may see an error.
        self::assertNotNull($this->recovered, "request $number: $body");
        self::assertArrayNotHasKey($seen['process'], $this->recovered, "request $number: $body");
        self::assertTrue(is_subclass_of($seen['exception'], PillionException::class), $body);
        $this->exceptions[$seen['exception']] = ($this->exceptions[$seen['exception']] ?? 0) + 1;
    }

    /** Compares the last quarter of each long-lived worker with its second quarter. */
    private function assertNothingGrew(): void
    {
        foreach ($this->workers as $process => $samples) {
            $quarter = intdiv(count($samples), 4);
            if ($quarter < 50) {
                continue;
            }
            $early = array_slice($samples, $quarter, $quarter);
            $late = array_slice($samples, -$quarter);
            foreach (['memory_kb' => self::GROWTH_KB, 'descriptors' => 0, 'threads' => 0] as $what => $most) {
                $growth = max(array_column($late, $what)) - max(array_column($early, $what));
                self::assertLessThanOrEqual($most, $growth, "$what of worker $process");
            }
        }
    }

    private function report(float $seconds, int $repeated): void
    {
        if (!getenv('PILLION_FPM_REQUESTS')) {
            return;
        }
        $requests = array_sum(array_map('count', $this->workers));
        fprintf(STDERR, "\n%d requests in %.1f s; %d went out again\n", $requests, $seconds, $repeated);
        foreach ($this->exceptions as $class => $times) {
            fprintf(STDERR, "%d times %s while the server was away\n", $times, $class);
        }
        foreach ($this->workers as $process => $samples) {
            fprintf(STDERR, "worker %d, %d requests:", $process, count($samples));
            foreach (['memory_kb', 'descriptors', 'threads'] as $what) {
                $values = array_column($samples, $what);
                $quarter = max(1, intdiv(count($values), 4));
                $middle = max(array_slice($values, $quarter, $quarter));
                fprintf(STDERR, " %s %d, %d, %d;", $what, $values[0], $middle, max(array_slice($values, -$quarter)));
            }
            fwrite(STDERR, " (first, second quarter, last quarter)\n");
        }
    }
}
