<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use PHPUnit\Framework\TestCase;
use Pillion\DmcpTool;
use Pillion\Exception\InvalidInputException;
use Pillion\Sidecar;
use Pillion\Tests\Support\Expect;
use Pillion\ToolAwareChat;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\Worker;

/**
 * A misspelled or null option is an error before a request is sent: a default in its place may allow more.
 *
 * @group library
 */
final class OptionsTest extends TestCase
{
    /** @return iterable<string, array{array<string, mixed>, string}> */
    public static function models(): iterable
    {
        $names = ['get_time'];
        foreach (['enabled_tool', 'Enabled_Tools', 'enabledTools', 'enbaled_tools', 'nabled_tools', 'enabled-tools', 'enabled_tools ', 'tools_enabled', 'allowedTools', 'only_tools', 'tool_names', 'disabled_tools'] as $key) {
            yield $key => [['function_calling' => true, $key => $names], "model.$key is unknown"];
            yield "tools.$key" => [['tools' => ['function_calling' => true, $key => $names]], "model.tools.$key is unknown"];
        }
        yield 'null' => [['function_calling' => true, 'enabled_tools' => null], 'model.enabled_tools must be a list of names, not null'];
        yield 'null in tools' => [['tools' => ['function_calling' => true, 'enabled_tools' => null]], 'model.tools.enabled_tools must be a list of names, not null'];
        yield 'beside tools' => [['tools' => ['function_calling' => true], 'enabled_tools' => $names], 'model.enabled_tools has no effect beside model.tools'];
        yield 'one level too deep' => [['function_calling' => true, 'limits' => ['enabled_tools' => $names]], 'model.limits.enabled_tools has no effect'];
        yield 'two levels too deep' => [['tools' => ['function_calling' => true, 'tools' => ['enabled_tools' => $names]]], 'model.tools.tools.enabled_tools has no effect'];
        foreach (['mpc', 'MCP', 'mcp_enabled', 'use_mcp_only', 'functon_calling', 'functionCalling', 'tool_calling', 'tool'] as $key) {
            yield $key => [['function_calling' => true, $key => true], "model.$key is unknown"];
        }
    }

    /**
     * @dataProvider models
     *
     * @param array<string, mixed> $model
     */
    public function testAModelWithAMisspeltKeySeesNoTools(array $model, string $message): void
    {
        $registry = ToolRegistry::withBuiltins();
        foreach ([$model, json_decode((string) json_encode($model))] as $shape) {
            foreach (['getAvailableForModel', 'getDroppedForModel'] as $method) {
                Expect::exception(InvalidInputException::class, fn () => $registry->$method($shape), $message);
            }
        }
        Expect::exception(InvalidInputException::class, fn () => $registry->get('calculator')->isEnabledForModel($model));
    }

    public function testOtherKeysOfAModelAreIgnored(): void
    {
        $model = ['active' => true, 'id' => 'm', 'label' => 'M', 'streamable' => true, 'input' => ['text', 'image'], 'tool_choice' => 'auto',
            'mcp_servers' => ['a'], 'api_url' => 'x', 'default_params' => ['temp' => 1], str_repeat('x', 5000) => 1];
        $tools = ['stream' => true, 'file_upload' => true, 'vision' => true, 'web_search' => false, 'function_calling' => true, 'enabled_tools' => ['get_time']];
        self::assertSame(['get_time'], array_keys(ToolRegistry::withBuiltins()->getAvailableForModel($model + ['tools' => $tools])));
        self::assertSame(['get_time'], array_keys(ToolRegistry::withBuiltins()->getAvailableForModel($model + $tools)));
        self::assertCount(3, ToolRegistry::withBuiltins()->getAvailableForModel(['function_calling' => true, 'enabled_tools' => []]));
    }

    public function testTheApprovalSettingOfAServerIsNotMisspelt(): void
    {
        $entry = ['server_url' => 'http://127.0.0.1:9/mcp', 'server_label' => 'away', 'own_setting' => 1];
        foreach (['require_aproval' => 'always', 'requireApproval' => 'always', 'require-approval' => 'always', 'require_approvals' => 'always', 'Require_Approval' => 'always'] as $key => $value) {
            foreach ([fn () => new DmcpTool($entry + [$key => $value]), fn () => (new ToolRegistry())->registerMcpServer($entry + [$key => $value])] as $register) {
                $e = Expect::exception(InvalidInputException::class, $register(...), failure: "$key was accepted");
                self::assertStringContainsString("'$key'", $e->getMessage());
            }
        }
        self::assertSame('dmcp_roll_dice', (new DmcpTool($entry + ['require_approval' => 'never']))->getName());
    }

    public function testNullIsNoOption(): void
    {
        $options = [
            "Invalid executor option 'timeout': it must not be null" => fn () => new ToolExecutor(new ToolRegistry(), ['timeout' => null]),
            "Invalid executor option 'approvals': it must not be null" => fn () => new ToolExecutor(new ToolRegistry(), ['approvals' => null]),
            "Invalid executor option 'rate_limits': it must not be null" => fn () => new ToolExecutor(new ToolRegistry(), ['approve' => null, 'rate_limits' => null]),
            "Invalid chat option 'enable_tools': expected a boolean" => fn () => new ToolAwareChat(new Sidecar('/none.sock'), 'm', ['enable_tools' => null]),
            "Invalid chat option 'timeout': expected a number" => fn () => new ToolAwareChat(new Sidecar('/none.sock'), 'm', ['timeout' => null]),
            "the option 'requiresConfirmation' must not be null" => fn () => (new Worker('/none.sock', 'w'))->add(new ToolDefinition('t', 'x'), fn () => 1, ['requiresConfirmation' => null]),
            "the option 'timeout' must not be null" => fn () => (new Worker('/none.sock', 'w'))->add(new ToolDefinition('t', 'x'), fn () => 1, ['timeout' => null]),
            "the option 'requireConfirmation' is unknown" => fn () => (new Worker('/none.sock', 'w'))->add(new ToolDefinition('t', 'x'), fn () => 1, ['requireConfirmation' => true]),
        ];
        foreach ($options as $message => $make) {
            $e = Expect::exception(InvalidInputException::class, $make(...), failure: "Accepted: $message");
            self::assertStringContainsString($message, $e->getMessage());
        }
        new ToolExecutor(new ToolRegistry(), ['approve' => null, 'before' => null]);
    }
}
