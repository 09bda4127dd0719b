<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** One of the real MCP servers of tests/peers; each is started once for the whole run. */
final class Peer
{
    private const START = __DIR__ . '/../../../../tests/peers/start';

    /** @var array<string, self> */
    private static array $running = [];

    /** @var resource|false */
    private $process;

    /** @var array<int, resource> its standard input must stay open: it ends with it */
    private array $pipes = [];

    private string $url;

    private function __construct(string $name)
    {
        $free = stream_socket_server('tcp://127.0.0.1:0');
        $port = substr((string) strrchr((string) stream_socket_get_name($free, false), ':'), 1);
        fclose($free);
        $environment = ['PILLION_PEER_STDIN' => '1'] + getenv();
        $errors = ['file', '/dev/null', 'w'];
        $command = [self::START, $name, $port];
        $this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], $errors], $this->pipes, null, $environment);
        $this->url = trim((string) fgets($this->pipes[1]));
        if ($this->url === '') {
            throw new \RuntimeException("The MCP server '$name' did not start");
        }
    }

    /** Its URL; null when its packages are not installed. */
    public static function url(string $name): ?string
    {
        if (!isset(self::$running[$name])) {
            if (Process::run([self::START, '--check', $name])['exit'] !== 0) {
                return null;
            }
            self::$running[$name] = new self($name);
        }
        return self::$running[$name]->url;
    }

    /**
     * The program and arguments of one that speaks over its standard streams; null when its
     * packages are not installed.
     *
     * @return ?list<string>
     */
    public static function command(string $name): ?array
    {
        if (Process::run([self::START, '--check', $name])['exit'] !== 0) {
            return null;
        }
        return explode("\n", trim(Process::run([self::START, '--command', $name])['output']));
    }
}
