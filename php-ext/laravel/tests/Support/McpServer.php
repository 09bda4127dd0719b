<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

/** The extension's fake MCP server, one for the whole run: `roll`, `echo`, `slow`. */
final class McpServer
{
    private static ?self $shared = null;

    /** @var resource */
    private $process;

    /** @var array<int, resource> its standard input must stay open: it ends with it */
    private array $pipes = [];

    private string $url;

    private function __construct()
    {
        $command = ['python3', __DIR__ . '/../../../tests/servers/s4.py'];
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w']], $this->pipes);
        if ($process === false) {
            throw new \RuntimeException('python3 could not be started');
        }
        $this->process = $process;
        $this->url = 'http://127.0.0.1:' . (int) fgets($this->pipes[1]) . '/sse';
    }

    public static function url(): string
    {
        return (self::$shared ??= new self())->url;
    }
}
