<?php

declare(strict_types=1);

/*
 * A worker that offers the tools of a shop to the sidecar: php worker.php [socket]
 *
 * The extension is not needed: a worker is plain PHP. An application with Composer requires
 * vendor/autoload.php instead.
 */

use Pillion\AsTool;
use Pillion\Exception\NotFoundException;
use Pillion\Worker;
use Pillion\Worker\Call;

require __DIR__ . '/../../php-ext/library/autoload.php';

/** Sample data. A real shop reads orders from a database. */
final class Shop
{
    private const ORDERS = [
        7 => ['status' => 'sent', 'items' => ['lamp', 'bulb']],
        8 => ['status' => 'open', 'items' => ['chair']],
    ];

    /**
     * Finds an order.
     *
     * @param int $number the number of the order, as on the invoice
     */
    #[AsTool(category: 'orders')]
    public function find_order(int $number): array
    {
        return ['number' => $number] + (self::ORDERS[$number] ?? throw new NotFoundException("There is no order $number"));
    }

    /** Cancels an order. */
    #[AsTool(category: 'orders', requiresConfirmation: true)]
    public function cancel_order(int $number): string
    {
        return "Order $number is cancelled";
    }

    /** Counts the stock, which takes 0.3 seconds for each shelf. */
    #[AsTool(category: 'stock')]
    public function count_stock(int $shelves = 3): array
    {
        $call = Call::current();
        for ($shelf = 1; $shelf <= $shelves; $shelf++) {
            $call?->progress($shelf, $shelves, "shelf $shelf");
            $call?->throwIfCancelled();
            usleep(300_000);
        }
        return ['shelves' => $shelves, 'lamps' => 4 * $shelves, 'counted_by' => getmypid()];
    }
}

$worker = (new Worker($argv[1] ?? null, 'shop'))->add(new Shop());
$worker->setLogger(new class () {
    /** @param array<string, mixed> $context */
    public function log(string $level, string $message, array $context): void
    {
        echo '[', getmypid(), "] $level: $message\n";
    }
});
$stopReason = $worker->run(maxCalls: 1_000);
echo '[', getmypid(), "] ended: $stopReason->value\n";
