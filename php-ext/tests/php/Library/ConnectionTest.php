<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use PHPUnit\Framework\TestCase;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Http\EventSource;
use Pillion\Fallback\Http\Request;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\OddPeer;
use Pillion\Worker\Connection;
use Pillion\Worker\ConnectionLostException;

/**
 * The connection of workers and executors, with a sidecar that reads or writes too slowly or too much.
 *
 * @group library
 */
final class ConnectionTest extends TestCase
{
    private ?OddPeer $peer = null;
    private ?Connection $connection = null;

    protected function tearDown(): void
    {
        $this->connection?->close();
        $this->peer?->stop();
    }

    private function connect(string $behavior): Connection
    {
        $this->peer = new OddPeer($behavior);
        return $this->connection = new Connection($this->peer->socket);
    }

    /** @return array<string, array{\Closure(Connection): ?string}> */
    public static function reads(): array
    {
        return [
            'a line' => [fn (Connection $connection) => $connection->readLine(0.3)],
            'bytes' => [fn (Connection $connection) => $connection->readBytes(1_000_000, 0.3)],
        ];
    }

    /**
     * @param \Closure(Connection): ?string $read
     *
     * @dataProvider reads
     */
    public function testBytesThatArriveSlowlyDoNotExtendATimeout(\Closure $read): void
    {
        $connection = $this->connect('drip');
        $connection->send("GET / HTTP/1.1\r\n\r\n");
        self::assertNotNull($connection->readUntil("\r\n\r\n", 10, 1000));
        $started = microtime(true);
        self::assertNull($read($connection));
        self::assertLessThan(5, microtime(true) - $started);
    }

    public function testALineIsReadInPieces(): void
    {
        $connection = $this->connect('pieces');
        $connection->send("GET / HTTP/1.1\r\n\r\n");
        self::assertStringStartsWith('HTTP/1.1 200 OK', (string) $connection->readUntil("\r\n\r\n", 10, 1000));
        self::assertSame('{"status":"ok"}', $connection->readBytes(15, 10));
        self::assertNull($connection->readLine(0.0));
    }

    public function testASidecarThatReadsSlowlyDoesNotExtendATimeout(): void
    {
        $connection = $this->connect('slow reader');
        $started = microtime(true);
        $e = Expect::exception(ConnectionLostException::class, fn () => $connection->send("POST / HTTP/1.1\r\ncontent-length: 10000000\r\n\r\n" . str_repeat('x', 10_000_000), 0.5));
        self::assertSame('The sidecar stopped reading messages', $e->getMessage());
        self::assertLessThan(5, microtime(true) - $started);
    }

    public function testEventsThatArriveSlowlyDoNotExtendATimeout(): void
    {
        $this->peer = new OddPeer('drip');
        $events = EventSource::open($this->peer->socket, new Request('/x', [], '{}'), new Deadline(0.5));
        $started = microtime(true);
        Expect::exception(\Pillion\Exception\TimeoutException::class, fn () => $events->nextEvent());
        self::assertLessThan(5, microtime(true) - $started);
    }
}
