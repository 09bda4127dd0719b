<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A sidecar with its own socket in its own directory. */
final class SidecarProcess
{
    public readonly string $socket;
    private readonly string $directory;
    private readonly string $program;
    private readonly string $servers;

    private readonly int $owner;

    /** @var resource|null null once stopped */
    private $process;

    /**
     * @param list<array<string, mixed>> $servers     the MCP servers that it knows
     * @param array<string, string>      $environment its settings
     */
    public function __construct(array $servers = [], private readonly array $environment = [])
    {
        $program = (string) getenv('PILLION');
        if (!is_executable($program)) {
            throw new \RuntimeException("There is no sidecar at '$program': build it, or set PILLION");
        }
        $this->directory = sys_get_temp_dir() . '/pillion-' . bin2hex(random_bytes(6));
        mkdir($this->directory, 0700);
        $this->socket = "$this->directory/pillion.sock";
        $this->program = $program;
        $this->owner = (int) getmypid();
        // With string values, a TOML inline table is JSON with `=` instead of `:`.
        $entry = fn (array $server): string => '{' . implode(', ', array_map(
            fn (string $key, mixed $value): string => "$key = " . json_encode($value, JSON_UNESCAPED_SLASHES),
            array_keys($server),
            $server,
        )) . '}';
        $this->servers = '[' . implode(', ', array_map($entry, $servers)) . ']';
        $this->start();
    }

    /** Starts another sidecar on the same socket, once this one has ended. */
    public function restart(): void
    {
        proc_terminate($this->process, SIGTERM);
        proc_close($this->process);
        $this->start();
    }

    /** Ends the sidecar at once. */
    public function kill(): void
    {
        proc_terminate($this->process, SIGKILL);
    }

    /** A forked child must not stop its parent's sidecar. */
    public function __destruct()
    {
        if (getmypid() === $this->owner) {
            $this->stop();
        }
    }

    public function stop(): void
    {
        if ($this->process === null) {
            return;
        }
        proc_terminate($this->process, SIGTERM);
        proc_close($this->process);
        $this->process = null;
        array_map('unlink', (array) glob("$this->directory/*"));
        rmdir($this->directory);
    }

    private function start(): void
    {
        $log = ['file', "$this->directory/log", 'w'];
        $command = [$this->program, 'serve', '--socket', $this->socket];
        $environment = $this->environment + ['PILLION__STORE__LOCATION' => 'memory', 'PILLION__MCP_SERVERS' => $this->servers] + getenv();
        $process = proc_open($command, [['pipe', 'r'], $log, $log], $pipes, null, $environment);
        if ($process === false) {
            throw new \RuntimeException('The sidecar could not be started');
        }
        $this->process = $process;
        // The socket exists shortly before the sidecar listens on it.
        if (!Process::waitFor(fn () => @stream_socket_client("unix://$this->socket") !== false)) {
            proc_terminate($this->process, SIGKILL);
            throw new \RuntimeException('The sidecar does not listen: ' . file_get_contents("$this->directory/log"));
        }
    }
}
