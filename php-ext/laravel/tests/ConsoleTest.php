<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Pillion\Laravel\Facades\Pillion;
use Pillion\Tests\Support\FakeServer;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;

final class ConsoleTest extends TestCase
{
    public function test_tools(): void
    {
        $this->configure(['servers' => [
            'dice' => ['url' => FakeServer::url(), 'only' => ['roll']],
            'gone' => ['url' => 'http://127.0.0.1:9/mcp'],
        ], 'log.channel' => false]);
        [$code, $output] = $this->artisanOutput('pillion:tools');
        self::assertSame(0, $code);
        self::assertMatchesRegularExpression('/\| dice_roll +\| dice +\| Rolls dice/', $output);
        self::assertMatchesRegularExpression('/\| calculator +\| application +\|/', $output);
        self::assertStringNotContainsString('dice_echo', $output);
        self::assertStringContainsString('Skipped gone: ', $output);
    }

    public function test_h2_tools_of_a_model(): void
    {
        $this->configure([
            'servers' => ['dice' => ['url' => FakeServer::url()]],
            'models' => ['small' => ['function_calling' => true, 'enabled_tools' => ['calculator', 'dice_roll']]],
        ]);
        [, $output] = $this->artisanOutput('pillion:tools --model=small --json');
        $visible = array_column(json_decode($output, true), 'visible', 'name');
        self::assertSame('yes', $visible['calculator']);
        self::assertSame("model has no 'mcp' flag", $visible['dice_roll']);
        self::assertSame('not in enabled_tools', $visible['get_time']);
        [, $output] = $this->artisanOutput('pillion:tools --model=unknown');
        self::assertStringContainsString('Unknown model unknown: the capabilities of pillion.default_model apply', $output);
        self::assertStringContainsString('model cannot call functions', $output);
        [, $output] = $this->artisanOutput('pillion:tools --model=small');
        self::assertStringNotContainsString('Unknown model', $output);
    }

    public function test_call(): void
    {
        self::assertSame([0, "42\n"], $this->artisanOutput('pillion:call calculator \'{"expression": "6 * 7"}\''));
        [$code, $output] = $this->artisanOutput('pillion:call calculator \'{"expression": "1/0"}\'');
        self::assertSame(1, $code);
        self::assertStringContainsString('division by zero', $output);
        [$code, $output] = $this->artisanOutput('pillion:call calculator \'[1]\'');
        self::assertSame(2, $code);
        self::assertStringContainsString('must be a JSON object', $output);
        [, $output] = $this->artisanOutput('pillion:call calculator \'{"expression": "1"}\' --json');
        self::assertTrue(json_decode($output, true)['success']);
    }

    public function test_servers(): void
    {
        [, $output] = $this->artisanOutput('pillion:servers');
        self::assertStringContainsString('No MCP servers are configured', $output);
        $this->configure(['servers' => [
            'dice' => ['url' => 'https://user:secret@mcp.example.org/sse?key=secret', 'token' => 'secret'],
            'files' => ['command' => ['npx', '-y', 'files', '--password=secret'], 'require_approval' => 'always', 'prefix' => 'f_'],
        ]]);
        [$code, $output] = $this->artisanOutput('pillion:servers');
        self::assertSame(0, $code);
        self::assertStringNotContainsString('secret', $output);
        self::assertMatchesRegularExpression('#\| dice +\| https://mcp.example.org/sse +\| dice_\* +\| never#', $output);
        self::assertMatchesRegularExpression('#\| files +\| npx +\| f_\* +\| always#', $output);
    }

    public function test_probe(): void
    {
        $this->configure(['servers' => [
            'dice' => ['url' => FakeServer::url()],
            'gone' => ['url' => 'http://127.0.0.1:9/mcp', 'token' => 'secret'],
        ]]);
        [$code, $output] = $this->artisanOutput('pillion:probe dice');
        self::assertSame(0, $code, $output);
        self::assertMatchesRegularExpression('/tools in \d+ ms: roll, echo, slow/', $output);
        [$code, $output] = $this->artisanOutput('pillion:probe gone');
        self::assertSame(1, $code);
        self::assertMatchesRegularExpression('/Connection refused|sidecar/', $output);
        self::assertStringNotContainsString('secret', $output);
        [$code, $output] = $this->artisanOutput('pillion:probe nope');
        self::assertSame(1, $code);
        self::assertStringContainsString("Unknown MCP server 'nope'; config/pillion.php defines: dice, gone", $output);
    }

    public function test_approvals(): void
    {
        $this->configure(['approvals.tools' => ['delete' => 'always-ask']]);
        Pillion::fake(['delete' => 'deleted']);
        self::assertStringContainsString('No calls wait', $this->artisanOutput('pillion:approvals')[1]);
        [$code, $output] = $this->artisanOutput('pillion:call delete \'{"what": "it"}\' --user=alice');
        self::assertSame(1, $code);
        self::assertMatchesRegularExpression('/pillion:approvals approve [0-9a-f]{64}/', $output);

        [, $output] = $this->artisanOutput('pillion:approvals list');
        self::assertMatchesRegularExpression('/\| delete +\| {"what":"it"} +\| alice +\|/', $output);
        $id = json_decode($this->artisanOutput('pillion:approvals list --json')[1], true)[0]['id'];
        [$code, $output] = $this->artisanOutput('pillion:approvals approve ' . substr($id, 0, 8) . ' --by=root');
        self::assertSame([0, "Approved: delete {\"what\":\"it\"}\n"], [$code, $output]);
        self::assertSame([0, "deleted\n"], $this->artisanOutput('pillion:call delete \'{"what": "it"}\' --user=alice'));

        Pillion::forTenant('acme')->call('delete');
        self::assertStringContainsString('No calls wait', $this->artisanOutput('pillion:approvals')[1]);
        self::assertStringContainsString('| delete', $this->artisanOutput('pillion:approvals --tenant=acme')[1]);

        self::assertSame(1, $this->artisanOutput('pillion:approvals deny abc')[0]);
        self::assertSame(1, $this->artisanOutput('pillion:approvals deny')[0]);
        self::assertSame(2, $this->artisanOutput('pillion:approvals forget')[0]);
    }

    public function test_foreign_text_is_not_interpreted_as_markup(): void
    {
        $this->configure(['approvals.tools' => ['delete' => 'always-ask']]);
        $evil = "<fg=black;bg=black>all</> <info>x</info>\e[2K\u{202e}\u{9b}";
        $seen = '<fg=black;bg=black>all</> <info>x</info>\u001b[2K\u202e\u009b';
        Pillion::fake(['delete' => 'deleted', 'say' => "$evil\nmore", 'fail' => new \RuntimeException($evil)]);

        self::assertSame([0, "$seen\nmore\n"], $this->artisanOutput('pillion:call say'));
        self::assertStringContainsString($seen, $this->artisanOutput('pillion:call fail')[1]);
        $json = $this->artisanOutput('pillion:call say --json')[1];
        self::assertStringNotContainsString("\u{202e}", $json);
        self::assertSame("$evil\nmore", json_decode($json, true)['result']);

        $arguments = ['what' => $evil, 'why' => str_repeat('because ', 50) . 'END', 'none' => new \stdClass()];
        $id = Pillion::forUser("<info>eve</info>\e")->call('delete', $arguments)->metadata['approval_id'];
        $list = $this->artisanOutput('pillion:approvals')[1];
        self::assertStringContainsString('<fg=black;bg=black>', $list);
        self::assertStringContainsString('| <info>eve</info>\u001b |', $list);
        self::assertStringNotContainsString('END', $list);
        [$code, $shown] = $this->artisanOutput('pillion:approvals show ' . substr($id, 0, 8));
        self::assertSame(0, $code);
        foreach ([$id, $seen, 'END', '<info>eve</info>', 'delete'] as $part) {
            self::assertStringContainsString($part, $shown);
        }
        self::assertDoesNotMatchRegularExpression('/[\e\x{202e}\x{9b}]/u', $list . $shown);
        $json = json_decode($this->artisanOutput("pillion:approvals show $id --json")[1], true);
        self::assertSame($evil, $json['arguments']['what']);
        self::assertStringContainsString($seen, $this->artisanOutput("pillion:approvals approve $id")[1]);
        self::assertSame(1, $this->artisanOutput("pillion:approvals show $id")[0], 'it is decided');

        $tool = new ToolDefinition('odd', $evil, ['type' => 'object', 'properties' => []]);
        $this->app->make(ToolRegistry::class)->register($tool, fn () => null);
        Pillion::fake([]);
        $tools = $this->artisanOutput('pillion:tools')[1];
        self::assertStringContainsString($seen, $tools);
        self::assertDoesNotMatchRegularExpression('/[\e\x{202e}]/u', $tools);
        self::assertStringContainsString('<info>x</info>', $this->artisanOutput('pillion:probe "<info>x</info>"')[1]);
    }

    public function test_make_tool(): void
    {
        $this->artisanOutput('make:pillion-tool WeatherTool');
        $this->artisanOutput('make:pillion-tool Forecast --interface');
        $this->artisanOutput('make:pillion-tool Remote/NewsTool --mcp');
        foreach (['WeatherTool' => "name: 'weather'", 'Forecast' => "name: 'forecast'", 'Remote/NewsTool' => "return 'news'"] as $file => $text) {
            $path = $this->folder->path . "/app/Tools/$file.php";
            self::assertStringContainsString($text, (string) file_get_contents($path));
            require $path;
        }
        $this->configure(['servers' => ['news' => ['class' => 'App\\Tools\\Remote\\NewsTool', 'server_url' => FakeServer::url()]]]);
        self::assertSame(['query' => 'sun', 'limit' => 10], Pillion::call('weather', ['query' => 'sun'])->result);
        self::assertSame(['query' => 'sun'], Pillion::call('forecast', ['query' => 'sun'])->result);
        self::assertSame('news', Pillion::registry()->getMCPTools()['news']->getMCPServerConfig()['server_label']);
    }

    public function test_misspelled_names_of_tools_are_shown(): void
    {
        $this->configure([
            'approvals.tools' => ['get_tiem' => 'always-ask', 'not_here' => 'always-ask'],
            'approvals.trusted_tools' => ['calculater', 'roll_dice'],
            'limits.rate_limits' => ['tools' => ['rolldice' => ['per_minute' => 1]]],
            'limits.tool_timeouts' => ['get_time' => 5],
        ]);
        [$code, $output] = $this->artisanOutput('pillion:tools');
        self::assertSame(0, $code);
        foreach (['approvals.tools names the tool get_tiem, which is unknown: did you mean get_time?', 'approvals.trusted_tools names the tool calculater', 'limits.rate_limits.tools names the tool rolldice'] as $remark) {
            self::assertStringContainsString("pillion.$remark", $output);
        }
        self::assertSame(3, substr_count($output, 'which is unknown'));
    }
}
