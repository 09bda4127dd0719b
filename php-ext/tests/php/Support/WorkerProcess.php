<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** `worker.php` in a separate process, with or without the extension. */
final class WorkerProcess
{
    private readonly string $log;

    /** @var resource */
    private $process;

    /** @param array<string, mixed> $arguments of `Worker::run()` */
    public function __construct(string $socket, array $arguments = [], string $name = 'test')
    {
        $loads = getenv('PILLION_CONTRACT') === 'library' ? [] : ['-d', 'extension=' . getenv('PILLION_EXTENSION')];
        $command = [
            PHP_BINARY, ...$loads, '-d', 'display_errors=stdout', '-d', 'log_errors=0',
            __DIR__ . '/worker.php', $socket, json_encode((object) $arguments), $name,
        ];
        $this->log = (string) tempnam(sys_get_temp_dir(), 'pillion-worker');
        $output = ['file', $this->log, 'w'];
        $process = proc_open($command, [['pipe', 'r'], $output, $output], $pipes);
        if ($process === false) {
            throw new \RuntimeException('The worker could not be started');
        }
        $this->process = $process;
    }

    public function output(): string
    {
        return (string) file_get_contents($this->log);
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    public function signal(int $signal): void
    {
        proc_terminate($this->process, $signal);
    }

    /** Waits for the exit; returns the exit code, -1 after a signal. */
    public function ended(): int
    {
        $status = [];
        $hasEnded = function () use (&$status): bool {
            $status = proc_get_status($this->process);
            return !$status['running'];
        };
        if (!Process::waitFor($hasEnded)) {
            $this->signal(SIGKILL);
            throw new \RuntimeException("The worker does not end:\n" . $this->output());
        }
        return $status['exitcode'];
    }

    /** Waits until the output contains this text. */
    public function printed(string $text): void
    {
        if (!Process::waitFor(fn () => str_contains($this->output(), $text))) {
            throw new \RuntimeException("The worker has not printed '$text':\n" . $this->output());
        }
    }

    public function __destruct()
    {
        $this->signal(SIGKILL);
        proc_close($this->process);
        unlink($this->log);
    }
}
