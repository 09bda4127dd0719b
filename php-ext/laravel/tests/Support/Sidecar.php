<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

/** A sidecar for the whole run, which the library speaks to; it knows the {@see McpServer}. */
final class Sidecar
{
    private static ?self $shared = null;

    private readonly string $folder;

    private readonly string $socket;

    /** @var resource */
    private $process;

    private function __construct(string $program)
    {
        $this->folder = sys_get_temp_dir() . '/pillion-laravel-sidecar-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0o700);
        $servers = array_map(
            fn (string $label) => sprintf("[[mcp_servers]]\nlabel = \"%s\"\nurl = \"%s\"\n", $label, McpServer::url()),
            ['dice', 'dmcp'],
        );
        file_put_contents("$this->folder/pillion.toml", implode("\n", $servers));
        $socket = $this->socket = "$this->folder/run/pillion.sock";
        $log = ['file', "$this->folder/log", 'w'];
        $command = [$program, 'serve', '--config', "$this->folder/pillion.toml", '--socket', $socket];
        $process = proc_open($command, [['pipe', 'r'], $log, $log], $pipes);
        if ($process === false) {
            throw new \RuntimeException("$program could not be started");
        }
        $this->process = $process;
        for ($tries = 0; !file_exists($socket) && $tries < 1000; $tries++) {
            usleep(10_000);
        }
    }

    /** The socket of one; it is started if need be. */
    public static function socket(): string
    {
        if (self::$shared === null) {
            self::$shared = new self((string) getenv('PILLION'));
            register_shutdown_function(static fn () => self::$shared?->stop());
        }
        return self::$shared->socket;
    }

    private function stop(): void
    {
        proc_terminate($this->process);
        proc_close($this->process);
        (new \Illuminate\Filesystem\Filesystem())->deleteDirectory($this->folder);
    }
}
