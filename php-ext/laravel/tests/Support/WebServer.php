<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

use Pillion\Tests\Support\Process;
use RuntimeException;

/** PHP's web server with several processes, for the application in a folder. */
final class WebServer
{
    public readonly string $url;

    /** @var resource */
    private $process;

    /** @param string $base the path below which the web server has the application, such as `/shop` */
    public function __construct(string $folder, string $base = '')
    {
        $address = '127.0.0.1:' . Process::freePort();
        $this->url = "http://$address$base";
        @mkdir("$folder/public");
        $options = extension_loaded('pillion')
            ? ['-d', 'extension=' . getenv('PILLION_EXTENSION'), '-d', 'pillion.log_level=off']
            : [];
        $command = [PHP_BINARY, ...$options, '-d', 'display_errors=0', '-S', $address, '-t', "$folder/public", __DIR__ . '/serve.php'];
        $log = ['file', "$folder/storage/logs/web.log", 'w'];
        $environment = ['PILLION_TEST_APP' => $folder, 'PILLION_TEST_BASE' => $base, 'PHP_CLI_SERVER_WORKERS' => '4'];
        $process = proc_open($command, [['pipe', 'r'], $log, $log], $pipes, null, $environment + getenv());
        if ($process === false) {
            throw new RuntimeException('The web server could not be started');
        }
        $this->process = $process;
        if (!Process::waitFor(fn () => @stream_socket_client("tcp://$address") !== false)) {
            throw new RuntimeException('The web server does not listen: ' . file_get_contents("$folder/storage/logs/web.log"));
        }
    }

    public function stop(): void
    {
        // The server's processes do not end with the server.
        $pid = proc_get_status($this->process)['pid'];
        $children = (string) @file_get_contents("/proc/$pid/task/$pid/children");
        foreach (preg_split('/ /', $children, -1, PREG_SPLIT_NO_EMPTY) as $child) {
            posix_kill((int) $child, SIGKILL);
        }
        proc_terminate($this->process, SIGKILL);
        proc_close($this->process);
    }
}
