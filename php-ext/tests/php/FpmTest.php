<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Fpm;
use PHPUnit\Framework\TestCase;

/**
 * State of a real FPM worker between requests.
 *
 * @group extension
 */
final class FpmTest extends TestCase
{
    private static Fpm $fpm;

    public static function setUpBeforeClass(): void
    {
        self::$fpm = Fpm::withWorkers(1);
    }

    public static function tearDownAfterClass(): void
    {
        self::$fpm->stop();
    }

    private function get(string $how = ''): string
    {
        return self::$fpm->get(__DIR__ . '/fpm/request.php', ['url' => FakeServer::url(), 'how' => $how]);
    }

    /** @return array{process: int, connection: int, ends: string, calculator: string} */
    private function seen(string $how = ''): array
    {
        return json_decode($this->get($how), true, flags: JSON_THROW_ON_ERROR);
    }

    public function testTheSecondRequestReusesTheSession(): void
    {
        $first = $this->seen();
        $second = $this->seen();
        self::assertSame($first, $second);
        self::assertSame(['goes on', '42'], [$second['ends'], $second['calculator']]);
    }

    public function testAfterAnyEndOfARequestTheNextRequestWorks(): void
    {
        $before = $this->seen();
        self::assertSame('left', $this->get('exit'));
        self::assertSame($before, $this->seen());
        self::assertStringContainsString('fatal on purpose', $this->get('fatal'));
        self::assertSame($before, $this->seen());
        self::assertSame('thrown on purpose', $this->seen('exception')['ends']);
        self::assertSame($before, $this->seen());
    }
}
