<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** A program of tests/servers: prints a line when it is ready, and ends with its standard input. */
final class ServerScript
{
    private const FOLDER = __DIR__ . '/../../servers/';

    /** @var resource */
    private $process;

    /** @var array<int, resource> its standard input must stay open: the program ends when it is closed */
    private array $pipes = [];

    public readonly string $firstLine;

    /**
     * @param list<string> $interpreter
     * @param list<string> $arguments
     */
    public function __construct(array $interpreter, string $file, array $arguments = [])
    {
        $command = [...$interpreter, self::FOLDER . $file, ...$arguments];
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w']], $this->pipes);
        if ($process === false) {
            throw new \RuntimeException("$file could not be started with $interpreter[0]");
        }
        $this->process = $process;
        $this->firstLine = trim((string) fgets($this->pipes[1]));
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    /** Stops the program; returns the rest of its output. */
    public function stop(int $signal): string
    {
        proc_terminate($this->process, $signal);
        $printed = (string) stream_get_contents($this->pipes[1]);
        proc_close($this->process);
        return $printed;
    }
}
