<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/** Runs PHP code in a separate process, with the extension, or with the library instead. */
final class Process
{
    /**
     * @param list<string> $options for the PHP command
     *
     * @return array{output: string, errors: string, exit: int}
     */
    public static function php(string $code, array $options = []): array
    {
        $library = __DIR__ . '/../../../library/autoload.php';
        $loads = getenv('PILLION_CONTRACT') === 'library' ? [] : ['-d', 'extension=' . getenv('PILLION_EXTENSION')];
        $before = $loads === [] ? "require '$library';" : '';
        $command = [
            PHP_BINARY, ...$loads, '-d', 'display_errors=stdout', '-d', 'log_errors=0', ...$options, '-r', $before . $code,
        ];
        return self::run($command);
    }

    /**
     * Waits up to a minute.
     *
     * @param callable(): bool $isDone
     */
    public static function waitFor(callable $isDone): bool
    {
        for ($tries = 0; $tries < 6_000; $tries++) {
            if ($isDone()) {
                return true;
            }
            usleep(10_000);
        }
        return false;
    }

    public static function freePort(): int
    {
        $free = stream_socket_server('tcp://127.0.0.1:0');
        $port = (int) substr((string) strrchr((string) stream_socket_get_name($free, false), ':'), 1);
        fclose($free);
        return $port;
    }

    /**
     * @param list<string> $command
     *
     * @return array{output: string, errors: string, exit: int}
     */
    public static function run(array $command): array
    {
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes);
        if ($process === false) {
            throw new \RuntimeException("{$command[0]} could not be started");
        }
        fclose($pipes[0]);
        $output = (string) stream_get_contents($pipes[1]);
        $errors = (string) stream_get_contents($pipes[2]);
        return ['output' => $output, 'errors' => $errors, 'exit' => proc_close($process)];
    }
}
