<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A sidecar of its own, on a socket in a directory of its own. */
final class SidecarProcess
{
    public readonly string $socket;
    private readonly string $directory;

    /** @var resource */
    private $process;

    public function __construct()
    {
        $program = (string) getenv('PILLION');
        if (!is_executable($program)) {
            throw new \RuntimeException("There is no sidecar at '$program': build it, or set PILLION");
        }
        $this->directory = sys_get_temp_dir() . '/pillion-' . bin2hex(random_bytes(6));
        mkdir($this->directory, 0700);
        $this->socket = "$this->directory/pillion.sock";
        $log = ['file', "$this->directory/log", 'w'];
        $process = proc_open([$program, 'serve', '--socket', $this->socket], [['pipe', 'r'], $log, $log], $pipes);
        if ($process === false) {
            throw new \RuntimeException('The sidecar could not be started');
        }
        $this->process = $process;
        for ($tries = 0; !file_exists($this->socket) && $tries < 500; $tries++) {
            usleep(10_000);
        }
    }

    public function stop(): void
    {
        proc_terminate($this->process, SIGTERM);
        proc_close($this->process);
        array_map('unlink', (array) glob("$this->directory/*"));
        rmdir($this->directory);
    }
}
