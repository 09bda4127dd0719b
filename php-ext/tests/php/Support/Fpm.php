<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A real php-fpm; with one worker, all requests reach the same process. */
final class Fpm
{
    public readonly string $socket;
    private readonly string $directory;

    /** @var resource */
    private $process;

    /** @param array<string, string> $settings more of the pool's, such as `pm.max_requests` */
    public function __construct(int $workers = 1, array $settings = [])
    {
        $program = getenv('PHP_FPM') ?: 'php-fpm' . PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;
        $this->directory = sys_get_temp_dir() . '/pillion-fpm-' . bin2hex(random_bytes(6));
        mkdir($this->directory);
        $this->socket = "$this->directory/fpm.sock";
        $more = implode("\n", array_map(fn ($name, $value) => "$name = $value", array_keys($settings), $settings));
        file_put_contents("$this->directory/fpm.conf", <<<CONF
            [global]
            error_log = $this->directory/log
            daemonize = no
            ; a reload and a stop wait so long for the requests under way
            process_control_timeout = 20s
            [www]
            listen = $this->socket
            pm = static
            pm.max_children = $workers
            $more
            CONF);
        $command = [
            $program, '--no-php-ini', '--allow-to-run-as-root', '--fpm-config', "$this->directory/fpm.conf",
            '-d', 'extension=' . getenv('PILLION_EXTENSION'), '-d', 'display_errors=1',
            ...array_filter(explode(' ', (string) getenv('PILLION_FPM_OPTIONS'))),
        ];
        $log = ['file', "$this->directory/output", 'w'];
        $process = proc_open($command, [['pipe', 'r'], $log, $log], $pipes);
        if ($process === false) {
            throw new \RuntimeException("$program could not be started");
        }
        $this->process = $process;
        // The socket exists shortly before a process listens on it.
        for ($tries = 0; !@stream_socket_client("unix://$this->socket"); $tries++) {
            if ($tries === 6_000) {
                proc_terminate($this->process);
                throw new \RuntimeException("$program does not listen: " . @file_get_contents("$this->directory/log"));
            }
            usleep(10_000);
        }
    }

    /** @param array<string, string> $query */
    public function get(string $script, array $query): string
    {
        $environment = [
            'SCRIPT_FILENAME' => $script, 'REQUEST_METHOD' => 'GET', 'QUERY_STRING' => http_build_query($query),
            'SCRIPT_NAME' => '/request.php', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'GATEWAY_INTERFACE' => 'CGI/1.1',
            'PATH' => (string) getenv('PATH'),
        ];
        $command = ['cgi-fcgi', '-bind', '-connect', $this->socket];
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes, null, $environment);
        if ($process === false) {
            throw new \RuntimeException('cgi-fcgi could not be started');
        }
        fclose($pipes[0]);
        $answer = (string) stream_get_contents($pipes[1]);
        proc_close($process);
        return explode("\r\n\r\n", $answer, 2)[1] ?? $answer;
    }

    /** Reloads like `systemctl reload`: the master restarts, then its workers. */
    public function reload(): void
    {
        proc_terminate($this->process, SIGUSR2);
    }

    /** @return array<int, string> the state of each child of the master by its process id; `Z` is a zombie */
    public function children(): array
    {
        $master = proc_get_status($this->process)['pid'];
        $children = [];
        foreach ((array) glob('/proc/[0-9]*/stat') as $file) {
            // A process may end while the list is read.
            $stat = explode(' ', substr((string) strrchr((string) @file_get_contents($file), ')'), 2));
            if ((int) ($stat[1] ?? 0) === $master) {
                $children[(int) basename(dirname($file))] = $stat[0];
            }
        }
        return $children;
    }

    /** Returns FPM's log. */
    public function log(): string
    {
        return (string) file_get_contents("$this->directory/log");
    }

    public function stop(): void
    {
        proc_terminate($this->process, SIGTERM);
        proc_close($this->process);
        array_map('unlink', (array) glob("$this->directory/*"));
        rmdir($this->directory);
    }
}
