<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Tests\Support\Sidecar;

final class SidecarTest extends TestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        if (getenv('PILLION') === false) {
            self::markTestSkipped('PILLION names no sidecar: use php-ext/laravel/run-tests');
        }
        $this->configure(['sidecar.socket' => Sidecar::socket()]);
    }

    public function test_it_is_spoken_to_at_the_configured_socket(): void
    {
        self::assertSame(Sidecar::socket(), Pillion::sidecar()->getSocketPath());
        self::assertTrue(Pillion::sidecar()->isAvailable());
        self::assertEquals(42, Pillion::sidecar()->callTool('calculator', ['expression' => '6 * 7'])['result']);
    }

    public function test_h2_its_tools_are_offered_like_those_of_mcp_servers(): void
    {
        self::assertFalse(Pillion::registry()->has('dice_roll'));
        $this->configure(['sidecar.register' => true]);
        $mcp = ['function_calling' => true, 'mcp' => true, 'enabled_tools' => ['dice_roll', 'calculator']];
        $pillion = Pillion::forUser('alice');
        self::assertSame(['calculator', 'dice_roll'], $pillion->forModel($mcp)->names());
        self::assertSame(15, $pillion->forModel($mcp)->call('dice_roll', ['dice' => '2d6'])->result['total']);
        self::assertSame(['calculator'], $pillion->forModel(['mcp' => false] + $mcp)->names());
        self::assertSame('invalid_input', $pillion->call('dice_roll', [])->errorCode);
    }

    public function test_without_one_the_application_goes_on(): void
    {
        $this->configure(['sidecar.register' => true, 'sidecar.socket' => '/nowhere/pillion.sock']);
        self::assertTrue(Pillion::registry()->has('calculator'));
        self::assertStringContainsString('/nowhere/pillion.sock', Pillion::leftOut()['(sidecar)']);
    }
}
