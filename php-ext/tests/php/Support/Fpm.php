<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A real php-fpm with a pool of any kind, and requests that the client can abandon. */
final class Fpm
{
    /** The path of a Unix socket, or host and port. */
    public readonly string $address;

    private readonly string $directory;

    /** @var resource */
    private $process;

    /**
     * @param list<string> $pool     lines of the pool's configuration
     * @param list<string> $global   lines of the global configuration
     * @param list<string> $settings for PHP, as name=value
     */
    public function __construct(array $pool, array $global = [], array $settings = [], bool $tcp = false)
    {
        $program = getenv('PHP_FPM') ?: 'php-fpm' . PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;
        $this->directory = sys_get_temp_dir() . '/pillion-fpm-' . bin2hex(random_bytes(6));
        mkdir($this->directory);
        $this->address = $tcp ? '127.0.0.1:' . Process::freePort() : "$this->directory/fpm.sock";
        $lines = [
            '[global]', "error_log = $this->directory/log", 'daemonize = no', ...$global,
            '[www]', "listen = $this->address", ...$pool,
        ];
        file_put_contents("$this->directory/fpm.conf", implode("\n", $lines) . "\n");
        $command = [
            $program, '--no-php-ini', '--allow-to-run-as-root', '--fpm-config', "$this->directory/fpm.conf",
            '-d', 'extension=' . getenv('PILLION_EXTENSION'), '-d', 'display_errors=1',
        ];
        foreach ($settings as $setting) {
            array_push($command, '-d', $setting);
        }
        $log = ['file', "$this->directory/output", 'w'];
        $process = proc_open($command, [['pipe', 'r'], $log, $log], $pipes);
        if ($process === false) {
            throw new \RuntimeException("$program could not be started");
        }
        $this->process = $process;
        if (!Process::waitFor(fn () => str_contains($this->log(), 'ready to handle connections'))) {
            proc_terminate($this->process);
            throw new \RuntimeException("$program does not listen: {$this->log()}");
        }
    }

    /**
     * Starts a static pool with the options of `$PILLION_FPM_OPTIONS`. With one worker, all requests reach the
     * same process.
     *
     * @param list<string> $pool more lines of the pool's configuration
     */
    public static function withWorkers(int $workers, array $pool = []): self
    {
        $settings = array_diff(explode(' ', (string) getenv('PILLION_FPM_OPTIONS')), ['-d', '']);
        // A reload and a stop wait this long for running requests.
        $global = ['process_control_timeout = 20s'];
        return new self(['pm = static', "pm.max_children = $workers", ...$pool], $global, array_values($settings));
    }

    public function path(string $name): string
    {
        return "$this->directory/$name";
    }

    public function log(): string
    {
        return (string) @file_get_contents("$this->directory/log");
    }

    public function master(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    public function isRunning(): bool
    {
        return proc_get_status($this->process)['running'];
    }

    /** @return list<int> */
    public function workers(): array
    {
        $children = (string) @file_get_contents("/proc/{$this->master()}/task/{$this->master()}/children");
        return array_map('intval', preg_split('/ /', $children, -1, PREG_SPLIT_NO_EMPTY));
    }

    /** Returns whether a worker has ended and the master has not noticed. */
    public function hasZombie(): bool
    {
        foreach ($this->workers() as $worker) {
            // A process may end while the list is read.
            if (str_contains((string) @file_get_contents("/proc/$worker/stat"), ') Z ')) {
                return true;
            }
        }
        return false;
    }

    public function signal(int $signal): void
    {
        posix_kill($this->master(), $signal);
    }

    /**
     * Sends a request without waiting for the response.
     *
     * @param array<string, string> $query
     *
     * @return array{process: resource, answer: resource}
     */
    public function start(string $script, array $query): array
    {
        $environment = [
            'SCRIPT_FILENAME' => $script, 'REQUEST_METHOD' => 'GET', 'QUERY_STRING' => http_build_query($query),
            'SCRIPT_NAME' => '/request.php', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'GATEWAY_INTERFACE' => 'CGI/1.1',
            'PATH' => (string) getenv('PATH'),
        ];
        $command = ['cgi-fcgi', '-bind', '-connect', $this->address];
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes, null, $environment);
        if ($process === false) {
            throw new \RuntimeException('cgi-fcgi could not be started');
        }
        fclose($pipes[0]);
        return ['process' => $process, 'answer' => $pipes[1]];
    }

    /** @param array{process: resource, answer: resource} $request */
    public function finish(array $request): string
    {
        $answer = (string) stream_get_contents($request['answer']);
        proc_close($request['process']);
        return explode("\r\n\r\n", $answer, 2)[1] ?? $answer;
    }

    /** @param array{process: resource, answer: resource} $request */
    public function leave(array $request): void
    {
        proc_terminate($request['process'], SIGKILL);
        proc_close($request['process']);
    }

    /** @param array<string, string> $query */
    public function get(string $script, array $query): string
    {
        return $this->finish($this->start($script, $query));
    }

    public function stop(): void
    {
        if ($this->isRunning()) {
            $this->signal(SIGTERM);
        }
        proc_close($this->process);
        array_map('unlink', (array) glob("$this->directory/*"));
        rmdir($this->directory);
    }
}
