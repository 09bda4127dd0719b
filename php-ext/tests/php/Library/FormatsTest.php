<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use PHPUnit\Framework\TestCase;
use Pillion\Exception\TransportException;
use Pillion\Exception\UnavailableException;
use Pillion\ProviderFormat;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\OddPeer;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

/**
 * The sidecar converts to and from the formats of providers.
 *
 * @group library
 */
final class FormatsTest extends TestCase
{
    private string $socket;

    protected function setUp(): void
    {
        $this->socket = (string) getenv('PILLION_SOCKET');
    }

    protected function tearDown(): void
    {
        putenv("PILLION_SOCKET=$this->socket");
    }

    /** @dataProvider conversions */
    public function testConversionsNeedASidecar(callable $convert): void
    {
        putenv('PILLION_SOCKET=/nonexistent/pillion.sock');
        $this->expectException(UnavailableException::class);
        $this->expectExceptionMessage('The sidecar is not running: no process listens on /nonexistent/pillion.sock');
        $convert();
    }

    /** @dataProvider conversions */
    public function testAMalformedResponseIsNamed(callable $convert): void
    {
        $peer = new OddPeer('wrong types');
        putenv("PILLION_SOCKET=$peer->socket");
        Expect::exception(TransportException::class, fn () => $convert(), "The sidecar's response has no valid '");
    }

    public static function conversions(): iterable
    {
        // Converted by no other test: the library keeps conversions.
        $definition = new ToolDefinition('never_converted', 'Says pong');
        yield 'tools' => [fn () => ProviderFormat::tools('openai', [$definition])];
        yield 'one tool' => [fn () => $definition->toGoogleFormat()];
        yield 'calls' => [fn () => ProviderFormat::toolCalls('openai', ['choices' => []])];
        yield 'text' => [fn () => ProviderFormat::text('openai', ['choices' => []])];
        yield 'messages' => [fn () => ProviderFormat::assistantMessages('openai', ['choices' => []])];
        yield 'results' => [fn () => ProviderFormat::results('openai', [ToolResult::success('pong', '1', 'ping')])];
        $registry = new ToolRegistry();
        $registry->register($definition, fn () => 'pong');
        yield 'schemas' => [fn () => $registry->getSchemas()];
    }

    public function testTheSameDefinitionsAreConvertedOnce(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $schemas = $registry->getSchemas();
        putenv('PILLION_SOCKET=/nonexistent/pillion.sock');
        self::assertEquals($schemas, $registry->getSchemas());
        self::assertSame([], $registry->getSchemas('none'));
        $registry->unregister('calculator');
        putenv("PILLION_SOCKET=$this->socket");
        self::assertEquals(array_slice($schemas, 1), $registry->getSchemas());
    }

    public function testNothingToConvertNeedsNoSidecar(): void
    {
        putenv('PILLION_SOCKET=/nonexistent/pillion.sock');
        self::assertSame([], (new ToolRegistry())->getSchemas());
        self::assertSame([], ProviderFormat::tools('openai', []));
    }

    public function testUnusualNamesAreUnknownProviders(): void
    {
        foreach (['', '.', '..', 'a/b', 'openai?x=1', "\u{e4}"] as $provider) {
            self::assertSame([], ProviderFormat::tools($provider, [new ToolDefinition('ping', 'Says pong')]));
        }
    }

    public function testAnEmptyMapOfACachedToolIsNotShared(): void
    {
        $registry = new ToolRegistry();
        $registry->register(new ToolDefinition('ping', 'Says pong'), fn () => 'pong');
        $registry->getSchemas()[0]['function']['parameters']['properties']->changed = true;
        self::assertEquals(new \stdClass(), $registry->getSchemas()[0]['function']['parameters']['properties']);
    }
}
