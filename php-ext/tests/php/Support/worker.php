<?php

declare(strict_types=1);

/*
 * A worker: php worker.php SOCKET [JSON of the arguments of Worker::run()] [name]
 *
 * Prints the log, and at the end why the worker has ended. With or without the extension; the
 * worker's classes are always the library's.
 */

use Pillion\AsTool;
use Pillion\Exception\NotFoundException;
use Pillion\ToolDefinition;
use Pillion\ToolResult;
use Pillion\Worker;
use Pillion\Worker\Call;

require_once __DIR__ . '/../../../library/autoload.php';

/** Tools of a shop. */
final class Shop
{
    /** Finds an order. */
    #[AsTool(category: 'orders', cooldownSeconds: 60)]
    public function find_order(int $number): array
    {
        if ($number === 404) {
            throw new NotFoundException("No order $number");
        }
        return ['number' => $number, 'price' => 1.0, 'lines' => [], 'notes' => new stdClass()];
    }

    /** Deletes an order. */
    #[AsTool(requiresConfirmation: true)]
    public function delete_order(int $number = 7): string
    {
        return "deleted $number";
    }
}

/** Reports progress until the call is cancelled. */
function count_up(int $to, int $pause_ms = 10): string
{
    for ($i = 1; $i <= $to; $i++) {
        Call::current()->progress($i, $to, "at $i");
        if (Call::current()->isCancelled()) {
            fwrite(STDOUT, "cancelled at $i\n");
            Call::current()->throwIfCancelled();
        }
        usleep($pause_ms * 1000);
    }
    return "counted to $to";
}

/** Returns its argument. */
function give(string $what): mixed
{
    return match ($what) {
        'null' => null,
        'list' => [1, 2],
        'number' => 1.0,
        'latin1' => "caf\xE9",
        'blocks' => ['content' => [['type' => 'image', 'mimeType' => 'image/png', 'data' => 'AAAA']], 'structuredContent' => []],
        'success' => ToolResult::success('words', data: ['for' => 'programs']),
        'failure' => ToolResult::failure('Not today', 'rate_limited', result: ['wait' => 3]),
        'exception' => throw new RuntimeException("Broken caf\xE9"),
        'exit' => exit(3),
        'echo' => print("something printed\n"),
        'large' => str_repeat('x', 15_900_000) . str_repeat('"', 500_000),
        'fork' => pcntl_fork() === 0 ? 'the child' : (string) usleep(200_000) . 'the parent',
        'process' => getmypid(),
        'terminated' => signalWhileOpening(SIGTERM),
        'about' => [Call::current()->id, Call::current()->user, Call::current()->channel, round(Call::current()->secondsLeft() ?? 0)],
        'caller' => [Call::current()->user, Call::current()->claimedUser, Call::current()->principal],
        default => $what,
    };
}

/** Sends a signal to this process while it waits for the other end of a FIFO. Returns what is written there. */
function signalWhileOpening(int $signal): string
{
    posix_mkfifo($fifo = (string) tempnam(sys_get_temp_dir(), 'pillion') . '.fifo', 0600);
    $commands = ['sleep 0.3', "kill -$signal " . getmypid(), 'sleep 0.3', "timeout 5 sh -c 'echo written >$fifo'", "rm $fifo"];
    exec('(' . implode('; ', $commands) . ') >/dev/null 2>&1 &');
    return trim((string) (new SplFileObject($fifo))->fgets());
}

/** Sleeps. */
function rest(float $seconds): string
{
    $end = microtime(true) + $seconds;
    while (microtime(true) < $end) {
        usleep(10_000);
    }
    return 'rested';
}

/** Sleeps, and returns the ID of its process. */
function work(float $seconds): int
{
    rest($seconds);
    return (int) getmypid();
}

$arguments = json_decode($argv[2] ?? '{}', true);
$worker = (new Worker($argv[1], $argv[3] ?? 'test'))
    ->add(new Shop())
    ->add('count_up')
    ->add('give', options: ['title' => 'Give', 'annotations' => ['readOnlyHint' => true], 'timeout' => 20])
    ->add('rest')
    ->add('work')
    ->add(
        new ToolDefinition('twice', 'Doubles', [['name' => 'number', 'type' => 'integer', 'required' => false, 'default' => 21]]),
        fn (array $given) => 2 * $given['number'],
    );
$worker->setLogger(new class () {
    /** @param array<string, mixed> $context */
    public function log(string $level, string $message, array $context): void
    {
        echo "$level: $message\n";
        if (str_contains($message, 'Signal yourself')) {
            try {
                signalWhileOpening(SIGINT);
            } catch (RuntimeException $e) {
                echo "{$e->getMessage()}\n";
            }
        }
    }
});
try {
    echo $worker->run(...$arguments)->value, "\n";
} catch (Pillion\Exception\PillionException $e) {
    echo get_class($e), ": {$e->getMessage()}\n";
    exit(1);
}
