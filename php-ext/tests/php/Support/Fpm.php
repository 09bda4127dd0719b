<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A real php-fpm with one worker, so that all requests meet the same process. */
final class Fpm
{
    private readonly string $directory;

    /** @var resource */
    private $process;

    public function __construct()
    {
        $program = getenv('PHP_FPM') ?: 'php-fpm' . PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;
        $this->directory = sys_get_temp_dir() . '/pillion-fpm-' . bin2hex(random_bytes(6));
        mkdir($this->directory);
        file_put_contents("$this->directory/fpm.conf", <<<CONF
            [global]
            error_log = $this->directory/log
            daemonize = no
            [www]
            listen = $this->directory/fpm.sock
            pm = static
            pm.max_children = 1
            CONF);
        $command = [
            $program, '--no-php-ini', '--allow-to-run-as-root', '--fpm-config', "$this->directory/fpm.conf",
            '-d', 'extension=' . getenv('PILLION_EXTENSION'), '-d', 'display_errors=1',
        ];
        $log = ['file', "$this->directory/output", 'w'];
        $process = proc_open($command, [['pipe', 'r'], $log, $log], $pipes);
        if ($process === false) {
            throw new \RuntimeException("$program could not be started");
        }
        $this->process = $process;
        for ($tries = 0; !file_exists("$this->directory/fpm.sock") && $tries < 500; $tries++) {
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
        $command = ['cgi-fcgi', '-bind', '-connect', "$this->directory/fpm.sock"];
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes, null, $environment);
        if ($process === false) {
            throw new \RuntimeException('cgi-fcgi could not be started');
        }
        fclose($pipes[0]);
        $answer = (string) stream_get_contents($pipes[1]);
        proc_close($process);
        return explode("\r\n\r\n", $answer, 2)[1] ?? $answer;
    }

    public function stop(): void
    {
        proc_terminate($this->process, SIGTERM);
        proc_close($this->process);
        array_map('unlink', (array) glob("$this->directory/*"));
        rmdir($this->directory);
    }
}
