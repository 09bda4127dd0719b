<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use PHPUnit\Framework\TestCase;
use Pillion\Exception\PillionException;
use Pillion\Exception\TimeoutException;
use Pillion\Exception\TransportException;
use Pillion\Exception\UnavailableException;
use Pillion\Fallback\Http\BodyStream;
use Pillion\Fallback\Http\CurlTransport;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Http\Request;
use Pillion\Fallback\Http\StreamTransport;
use Pillion\Fallback\Http\Transport;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\OddPeer;
use Pillion\Tests\Support\SidecarProcess;

/**
 * Both transports to the sidecar, curl and streams, with the same servers.
 *
 * @group library
 */
final class TransportTest extends TestCase
{
    private const WAYS = ['curl' => CurlTransport::class, 'streams' => StreamTransport::class];

    private ?OddPeer $peer = null;

    protected function tearDown(): void
    {
        $this->peer?->stop();
    }

    private function peer(string $behavior, string $class): Transport
    {
        $this->peer = new OddPeer($behavior);
        return new $class($this->peer->socket);
    }

    private static function send(Transport $transport, float $seconds = 5, ?string $body = '{}'): string
    {
        $response = $transport->send(new Request('/x', ['x-pillion-user' => 'alice'], $body), new Deadline($seconds));
        self::assertSame(200, $response->status);
        return $response->body;
    }

    /** @dataProvider soundPeers */
    public function testAResponseIsReadInEveryForm(string $class, string $behavior): void
    {
        $transport = $this->peer($behavior, $class);
        self::assertSame('{"status":"ok"}', self::send($transport));
        self::assertSame('{"status":"ok"}', self::send($transport, body: null), 'the next request, too');
    }

    public static function soundPeers(): iterable
    {
        foreach (self::WAYS as $name => $class) {
            foreach (['whole', 'early', 'old', 'chunks', 'pieces'] as $behavior) {
                yield "$name: $behavior" => [$class, $behavior];
            }
        }
    }

    /** @dataProvider bodies */
    public function testABodyIsReadInParts(string $behavior): void
    {
        $this->peer = new OddPeer($behavior);
        $stream = BodyStream::open($this->peer->socket, new Request('/x', ['host' => 'app.example'], '{}'), new Deadline(5));
        self::assertSame(200, $stream->status());
        self::assertSame($behavior === 'chunks' ? 'chunked' : null, $stream->headers()['transfer-encoding'] ?? null);
        $body = '';
        while (($part = $stream->read(new Deadline(5))) !== null) {
            self::assertNotSame('', $part);
            $body .= $part;
        }
        self::assertSame('{"status":"ok"}', $body);
        self::assertNull($stream->read(new Deadline(5)));
    }

    public static function bodies(): iterable
    {
        return [['whole'], ['old'], ['chunks'], ['pieces']];
    }

    public function testTheResponseToAHeadRequestHasNoBody(): void
    {
        $this->peer = new OddPeer('large');
        $stream = BodyStream::open($this->peer->socket, new Request('/x', isHead: true), new Deadline(5));
        self::assertSame('999999999999', $stream->headers()['content-length']);
        self::assertNull($stream->read(new Deadline(5)));
    }

    public function testABodyThatDoesNotArriveTimesOut(): void
    {
        $this->peer = new OddPeer('half');
        $stream = BodyStream::open($this->peer->socket, new Request('/x'), new Deadline(5));
        self::assertSame('{"sta', $stream->read(new Deadline(5)));
        Expect::exception(PillionException::class, fn () => $stream->read(new Deadline(0.1)));
    }

    /** @dataProvider brokenPeers */
    public function testAMalformedResponseIsAClearError(string $class, string $behavior, string $message): void
    {
        $transport = $this->peer($behavior, $class);
        $started = microtime(true);
        $e = Expect::exception(TransportException::class, fn () => self::send($transport, 60));
        self::assertStringContainsString($message, $e->getMessage());
        self::assertSame('unavailable', $e->errorCode);
        self::assertLessThan(50, microtime(true) - $started);
        self::assertSame(1, $this->peer?->stop(), 'what may have run is not sent again');
    }

    public static function brokenPeers(): iterable
    {
        $messages = [
            'closed the connection before it sent a response' => ['closes', 'half', 'half chunk'],
            'longer than 67108864 bytes' => ['large', 'endless'],
            'The sidecar' => ['no http', 'odd chunk', 'large chunk'],
        ];
        foreach (self::WAYS as $name => $class) {
            foreach ($messages as $message => $behaviors) {
                foreach ($behaviors as $behavior) {
                    yield "$name: $behavior" => [$class, $behavior, $message];
                }
            }
        }
        // curl reads these two as responses without a body, which is not JSON.
        yield 'streams: half head' => [StreamTransport::class, 'half head', 'an incomplete response'];
        yield 'streams: odd length' => [StreamTransport::class, 'odd length', 'invalid Content-Length'];
    }

    /** @dataProvider ways */
    public function testACallIsSentOnceOnAReusedConnection(string $class): void
    {
        $transport = $this->peer('second breaks off', $class);
        self::send($transport);
        Expect::exception(TransportException::class, fn () => self::send($transport), 'closed the connection');
        self::assertSame(2, $this->peer?->stop());
    }

    /** @dataProvider slowPeers */
    public function testTheDeadlineHolds(string $class, string $behavior): void
    {
        $transport = $this->peer($behavior, $class);
        $started = microtime(true);
        $e = Expect::exception(TimeoutException::class, fn () => self::send($transport, 0.3));
        self::assertSame(['The sidecar did not respond within 0.3s', 'timeout'], [$e->getMessage(), $e->errorCode]);
        $took = microtime(true) - $started;
        self::assertGreaterThan(0.25, $took);
        self::assertLessThan(3, $took);
    }

    public static function slowPeers(): iterable
    {
        foreach (self::WAYS as $name => $class) {
            foreach (['silent', 'drip'] as $behavior) {
                yield "$name: $behavior" => [$class, $behavior];
            }
        }
    }

    /** @dataProvider ways */
    public function testAServerThatReadsNothingTimesOut(string $class): void
    {
        $path = sys_get_temp_dir() . '/pillion-mute-' . bin2hex(random_bytes(6));
        $server = stream_socket_server("unix://$path");
        $this->expectException(TimeoutException::class);
        try {
            self::send(new $class($path), 0.3, str_repeat('x', 10_000_000));
        } finally {
            fclose($server);
            unlink($path);
        }
    }

    /** @dataProvider ways */
    public function testARefusedConnectionIsAnError(string $class): void
    {
        $stale = sys_get_temp_dir() . '/pillion-stale-' . bin2hex(random_bytes(6));
        fclose(stream_socket_server("unix://$stale"));
        foreach (['/nonexistent/pillion.sock', $stale] as $path) {
            $e = Expect::exception(UnavailableException::class, fn () => self::send(new $class($path)));
            self::assertSame("The sidecar is not running: no process listens on $path", $e->getMessage());
        }
        unlink($stale);
        Expect::exception(UnavailableException::class, fn () => self::send(new $class(__FILE__)), __FILE__);
    }

    /** @dataProvider ways */
    public function testCallsToTheRealSidecarShareOneConnection(string $class): void
    {
        $sidecar = new SidecarProcess();
        try {
            $transport = new $class($sidecar->socket);
            $path = '/api/v1/tools/execute/calculator';
            $descriptors = null;
            for ($nth = 0; $nth < 200; $nth++) {
                $answer = $transport->send(new Request($path, [], '{"expression": "6*7"}'), new Deadline(5));
                self::assertSame('42', json_decode($answer->body)->result->result);
                $descriptors ??= count((array) scandir('/proc/self/fd'));
            }
            self::assertCount($descriptors, (array) scandir('/proc/self/fd'));
            $large = str_repeat('1+', 100_000) . '1';
            $answer = $transport->send(new Request($path, [], json_encode(['expression' => $large])), new Deadline(20));
            self::assertSame(200, $answer->status);
        } finally {
            $sidecar->stop();
        }
        Expect::exception(PillionException::class, fn () => $transport->send(new Request('/healthz'), new Deadline(5)));
    }

    /** @dataProvider ways */
    public function testTheClientReconnectsToARestartedSidecar(string $class): void
    {
        $this->peer = new OddPeer('whole');
        $transport = new $class($this->peer->socket);
        self::send($transport);
        $path = $this->peer->socket;
        $this->peer->stop();
        $this->peer = new OddPeer('whole');
        rename($this->peer->socket, $path);
        self::assertSame('{"status":"ok"}', self::send($transport));
        unlink($path);
    }

    public static function ways(): iterable
    {
        foreach (self::WAYS as $name => $class) {
            yield $name => [$class];
        }
    }
}
