<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A real php-fpm with a pool of any kind, and requests that the client can abandon. */
final class FpmPool
{
    private readonly string $directory;

    private readonly string $listen;

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
        $this->listen = $tcp ? '127.0.0.1:' . self::freePort() : "$this->directory/fpm.sock";
        $lines = [
            '[global]', "error_log = $this->directory/log", 'daemonize = no', ...$global,
            '[www]', "listen = $this->listen", ...$pool,
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
        if (!self::waitFor(fn () => str_contains($this->log(), 'ready to handle connections'))) {
            proc_terminate($this->process);
            throw new \RuntimeException("$program does not listen: {$this->log()}");
        }
    }

    private static function freePort(): int
    {
        $free = stream_socket_server('tcp://127.0.0.1:0');
        $port = (int) substr((string) strrchr((string) stream_socket_get_name($free, false), ':'), 1);
        fclose($free);
        return $port;
    }

    /** @param callable(): bool $is */
    public static function waitFor(callable $is): bool
    {
        for ($tries = 0; $tries < 3_000; $tries++) {
            if ($is()) {
                return true;
            }
            usleep(20_000);
        }
        return false;
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
        $command = ['cgi-fcgi', '-bind', '-connect', $this->listen];
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
