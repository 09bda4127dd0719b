<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Pillion\Laravel\Facades\Pillion;
use Pillion\Tests\Support\FakeServer;
use Pillion\ToolRegistry;

/** Tests HAWKI's provider, sample tool and model lists, unchanged. */
final class HawkiTest extends TestCase
{
    private const EXAMPLE = __DIR__ . '/../../../php-examples/hawki';

    protected function files(): array
    {
        return ['config/model_lists/gwdg_models.php' => (string) file_get_contents(
            self::EXAMPLE . '/config/model_lists/gwdg_models.php',
        )];
    }

    protected function setUp(): void
    {
        parent::setUp();
        putenv('DMCP_URL=' . FakeServer::url());
        foreach (['MyMcpTool.php', 'ToolServiceProvider.php'] as $file) {
            require_once self::EXAMPLE . "/$file";
        }
        $this->app->register(\App\Services\AI\Tools\ToolServiceProvider::class);
    }

    protected function tearDown(): void
    {
        putenv('DMCP_URL');
        parent::tearDown();
    }

    public function test_j2_hawkis_provider_registers_its_tools(): void
    {
        $names = array_keys($this->app->make(ToolRegistry::class)->getMCPTools());
        self::assertSame(['dmcp_roll_dice', 'my_mcp_tool'], $names);
        $this->app->forgetScopedInstances();
        Pillion::clearResolvedInstances();
        self::assertTrue(Pillion::registry()->has('my_mcp_tool'), 'in the next request of the worker too');
    }

    public function test_h2_hawkis_model_lists_decide(): void
    {
        self::assertSame(['calculator'], Pillion::forModel('meta-llama-3.1-8b-instruct')->names());
        self::assertSame(
            ['calculator', 'dmcp_roll_dice', 'my_mcp_tool'],
            Pillion::forModel('meta-llama-3.3-70b-instruct')->names(),
        );
    }

    public function test_g2_hawkis_approval_settings_apply(): void
    {
        $tools = Pillion::forModel('meta-llama-3.3-70b-instruct');
        self::assertSame(15, $tools->call('dmcp_roll_dice', ['dice' => '1d20'])->result['total']);
        self::assertSame('approval_required', $tools->call('my_mcp_tool', ['param1' => 'x'])->errorCode);
    }
}
