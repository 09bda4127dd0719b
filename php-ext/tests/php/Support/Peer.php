<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

use PHPUnit\Framework\Assert;

/** One of the real MCP servers of tests/peers; `url()` starts each server once for the whole run. */
final class Peer
{
    private const START = __DIR__ . '/../../../../tests/peers/start';

    /** @var array<string, self> */
    private static array $running = [];

    /** @var resource|false */
    private $process;

    /** @var array<int, resource> its standard input must stay open: the server ends when it is closed */
    private array $pipes = [];

    private ?string $url = null;

    /** Starts a server, on the given port if there is one. */
    public function __construct(private readonly string $name, private ?int $port = null)
    {
        $attempts = 3;
        do {
            // Another process may have taken the free port.
            $this->port = $port;
            $this->start();
            for ($tries = 0; $this->startedUrl() === null && $tries < 12_000 && $this->isRunning(); $tries++) {
                usleep(10_000);
            }
        } while ($this->startedUrl() === null && --$attempts > 0);
        if ($this->startedUrl() === null) {
            throw new \RuntimeException("The MCP server '$name' did not start");
        }
    }

    /** Restarts the server after `stop()` on the same port, without waiting for it. */
    public function start(): void
    {
        $this->port ??= Process::freePort();
        $environment = ['PILLION_PEER_STDIN' => '1'] + getenv();
        $errors = ['file', '/dev/null', 'w'];
        $command = [self::START, $this->name, (string) $this->port];
        $this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], $errors], $this->pipes, null, $environment);
        stream_set_blocking($this->pipes[1], false);
    }

    /** Returns the URL once the server responds, null until then. */
    public function startedUrl(): ?string
    {
        return $this->url ??= trim((string) fgets($this->pipes[1])) ?: null;
    }

    /** Stops the server and waits until it has ended. */
    public function stop(): void
    {
        array_map('fclose', $this->pipes);
        proc_close($this->process);
        $this->url = null;
    }

    /**
     * Skips the test if the server's packages are not installed; fails the test if scripts/test requires
     * them, because a missing server must not look like a success.
     */
    public static function need(string $name): void
    {
        if (Process::run([self::START, '--check', $name])['exit'] !== 0) {
            $message = "The packages of '$name' are not installed: scripts/setup test";
            getenv('PILLION_REQUIRE_PEERS') === '1' ? Assert::fail($message) : Assert::markTestSkipped($message);
        }
    }

    private function isRunning(): bool
    {
        return proc_get_status($this->process)['running'];
    }

    /** Returns the server's URL. */
    public static function url(string $name): string
    {
        if (!isset(self::$running[$name])) {
            self::need($name);
            self::$running[$name] = new self($name);
        }
        return (string) self::$running[$name]->startedUrl();
    }

    /**
     * Returns the program and arguments of a stdio server.
     *
     * @return list<string>
     */
    public static function command(string $name): array
    {
        self::need($name);
        return explode("\n", trim(Process::run([self::START, '--command', $name])['output']));
    }
}
