<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use PHPUnit\Framework\TestCase;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\TransportException;
use Pillion\Exception\UnavailableException;
use Pillion\Sidecar;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\OddPeer;
use Pillion\Tests\Support\Process;

/**
 * Valid HTTP responses with unexpected content.
 *
 * @group library
 */
final class AnswerTest extends TestCase
{
    /** @dataProvider answers */
    public function testAMalformedResponseIsNamed(string $behavior, string $method, array $arguments, string $message): void
    {
        $peer = new OddPeer($behavior);
        $e = Expect::exception(TransportException::class, fn () => (new Sidecar($peer->socket, 5))->$method(...$arguments));
        self::assertStringContainsString($message, $e->getMessage());
        self::assertSame('unavailable', $e->errorCode);
        self::assertSame($behavior === 'server error' ? 502 : ($behavior === 'wrong types' ? null : 200), $e->httpStatus);
    }

    public static function answers(): iterable
    {
        yield 'no JSON' => ['no json', 'listTools', [], 'is not the expected JSON'];
        yield 'half a head' => ['half head', 'listTools', [], 'is not the expected JSON'];
        yield 'no object' => ['a list', 'listTools', [], 'is not a JSON object'];
        yield 'too deep' => ['deep', 'listTools', [], 'is not the expected JSON'];
        yield 'tools that are text' => ['wrong types', 'listTools', [], "has no list 'tools'"];
        yield 'a schema that is a number' => ['wrong types', 'getSchemas', [], "list 'schemas' has an entry that is not an object"];
        yield 'results that are a map' => ['wrong types', 'executeAll', [[['id' => '1', 'name' => 'x']]], 'with one result for each call'];
        yield 'success that is text' => ['wrong types', 'callTool', ['x'], "has no boolean 'success'"];
        yield 'an error of a proxy' => ['server error', 'listTools', [], 'HTTP status 502'];
    }

    public function testARefusalHasItsCode(): void
    {
        $peer = new OddPeer('too large');
        Expect::exception(InvalidInputException::class, fn () => (new Sidecar($peer->socket, 5))->callTool('x'), 'Too large');
    }

    public function testAnInvalidSocketPathIsAnError(): void
    {
        foreach (['', str_repeat('x', 108), "a\0b"] as $path) {
            Expect::exception(UnavailableException::class, fn () => (new Sidecar($path))->listTools(), "a socket's path has 1 to 107 bytes");
        }
    }

    public function testAHeaderCannotBeSmuggledIn(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage('The value of the header x-pillion-user has characters that are not allowed in a header');
        (new Sidecar())->callTool('get_time', [], ['user' => "alice\r\nx-pillion-channel: c"]);
    }

    public function testItRunsWithoutCurl(): void
    {
        $code = '$sidecar = new Pillion\Sidecar(); echo extension_loaded("curl") ? "curl" : "streams", " ",'
            . ' $sidecar->callTool("calculator", ["expression" => "6*7"])["result"];';
        if (Process::php('echo extension_loaded("curl") ? 1 : 0;', ['-n'])['output'] === '1') {
            self::markTestSkipped('This PHP has curl built in');
        }
        self::assertSame('streams 42', Process::php($code, ['-n'])['output']);
        self::assertSame('curl 42', Process::php($code)['output']);
    }

    public function testAForkedChildGetsItsOwnConnection(): void
    {
        $code = <<<'PHP'
            $sum = fn () => (new Pillion\Sidecar())->callTool('calculator', ['expression' => '6*7'])['result'];
            echo $sum(), ' ';
            if (pcntl_fork() === 0) {
                echo $sum() === 42 ? 'child ' : 'wrong ';
                exit(0);
            }
            $mine = array_map(fn () => $sum(), range(1, 50));
            pcntl_wait($status);
            echo array_unique($mine) === [42] ? 'parent' : 'wrong';
            PHP;
        self::assertSame('42 child parent', Process::php($code)['output']);
    }
}
