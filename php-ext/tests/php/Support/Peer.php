<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

use PHPUnit\Framework\Assert;

/** One of the real MCP servers of tests/peers; `url()` starts each once for the whole run. */
final class Peer
{
    private const START = __DIR__ . '/../../../../tests/peers/start';

    /** @var array<string, self> */
    private static array $running = [];

    /** @var resource|false */
    private $process;

    /** @var array<int, resource> its standard input must stay open: it ends with it */
    private array $pipes = [];

    private ?string $url = null;

    /** Starts a server; on the port where it was before when one is named. */
    public function __construct(private readonly string $name, private ?int $port = null)
    {
        $attempts = 3;
        do {
            // One that was free a moment ago may be another process' by now.
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

    /** Starts it again after `stop()`, on the same port, and does not wait for it. */
    public function start(): void
    {
        if ($this->port === null) {
            $free = stream_socket_server('tcp://127.0.0.1:0');
            $this->port = (int) substr((string) strrchr((string) stream_socket_get_name($free, false), ':'), 1);
            fclose($free);
        }
        $environment = ['PILLION_PEER_STDIN' => '1'] + getenv();
        $errors = ['file', '/dev/null', 'w'];
        $command = [self::START, $this->name, (string) $this->port];
        $this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], $errors], $this->pipes, null, $environment);
        stream_set_blocking($this->pipes[1], false);
    }

    /** Its URL once it answers, null until then. */
    public function startedUrl(): ?string
    {
        return $this->url ??= trim((string) fgets($this->pipes[1])) ?: null;
    }

    /** Ends it and waits until it is gone. */
    public function stop(): void
    {
        array_map('fclose', $this->pipes);
        proc_close($this->process);
        $this->url = null;
    }

    /**
     * Skips the test when the server's packages are not installed; fails it where scripts/test asks
     * for them: there a missing server must not look like a pass.
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

    /** Its URL. */
    public static function url(string $name): string
    {
        if (!isset(self::$running[$name])) {
            self::need($name);
            self::$running[$name] = new self($name);
        }
        return (string) self::$running[$name]->startedUrl();
    }

    /**
     * The program and arguments of one that speaks over its standard streams.
     *
     * @return list<string>
     */
    public static function command(string $name): array
    {
        self::need($name);
        return explode("\n", trim(Process::run([self::START, '--command', $name])['output']));
    }
}
