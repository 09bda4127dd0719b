<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Tests\Support\ChecksConfiguration;
use Pillion\Tests\Support\Expect;

/** Models and tool classes may have keys of the application, but none that is misspelled. */
final class ModelKeysTest extends TestCase
{
    use ChecksConfiguration;

    public function test_a_models_keys_are_found_in_all_shapes(): void
    {
        $misspelled = [
            'enabled_tool' => ['enabled_tool' => ['get_time']],
            'enabledTools' => ['enabledTools' => ['get_time']],
            'allowed_tools' => ['allowed_tools' => ['get_time']],
            'tool' => ['tool' => ['enabled_tools' => ['get_time']]],
            'enabled_tools' => ['enabled_tools' => null],
            'tools.enabled_tool' => ['tools' => ['function_calling' => true, 'enabled_tool' => ['get_time']]],
            'tools.enabled_tools' => ['tools' => ['function_calling' => true, 'enabled_tools' => null]],
            'limits.enabled_tools' => ['limits' => ['enabled_tools' => ['get_time']]],
        ];
        foreach ($misspelled as $key => $wrong) {
            $model = isset($wrong['tools']) ? $wrong : ['function_calling' => true] + $wrong;
            $this->assertRejected(['models' => ['m' => $model]], ['models', 'm', ...explode('.', $key)], $key);
            $this->assertRejected(['default_model' => $model], ['default_model', ...explode('.', $key)], $key);
            foreach ([$model, (object) $model, self::modelWithGetter($model['tools'] ?? $model)] as $shape) {
                Expect::exception(InvalidInputException::class, fn () => Pillion::forModel($shape)->names(), strrchr(".$key", '.'));
            }
        }
        $beside = ['enabled_tools' => ['get_time'], 'tools' => ['function_calling' => true]];
        $this->assertRejected(['models' => ['m' => $beside]], ['models', 'm', 'enabled_tools'], 'beside tools');
        $this->assertRejected(['models' => ['enabled_tools' => ['get_time']]], ['models', 'enabled_tools'], 'in the list of models');
        $this->assertRejected(['models' => [['id' => 'm', 'tools' => []]]], ['models'], 'a list of models');
        $this->checks(['models' => ['m' => ['function_calling' => true, 'price' => 3, 'notes' => ['x' => 'y'], 'tool_prompt' => 'x']]]);
    }

    public function test_a_model_list_with_a_misspelled_key_or_without_a_file_is_an_error(): void
    {
        config(['model_lists' => ['own' => [['id' => 'm', 'tools' => ['function_calling' => true, 'enabled_tool' => ['get_time']]]]]]);
        $e = Expect::exception(InvalidInputException::class, fn () => Pillion::forModel('m')->names());
        self::assertSame("model m.tools.enabled_tool is unknown: did you mean 'enabled_tools'?", $e->getMessage());
        $this->configure(['model_lists' => 'modellists']);
        $this->expectExceptionMessage("pillion.model_lists names the configuration 'modellists', which does not exist");
        Pillion::forModel('m');
    }

    public function test_the_entry_of_a_tool_class_may_have_keys_of_the_class_but_none_that_is_misspelled(): void
    {
        $entry = ['class' => \Pillion\DmcpTool::class, 'server_url' => 'http://127.0.0.1:9/mcp', 'tool_name' => 'roll', 'argument_names' => ['reason' => null]];
        $this->checks(['servers' => ['dmcp' => $entry]]);
        foreach (['require_aproval' => 'always', 'requireApproval' => 'always', 'server_ulr' => 'x', 'registre' => false] as $key => $value) {
            $this->assertRejected(['servers' => ['dmcp' => $entry + [$key => $value]]], ['servers', 'dmcp', $key], $key);
        }
    }

    public function test_the_tools_of_a_skipped_entry_need_approval_if_the_registry_has_them_in_another_way(): void
    {
        $entry = ['server_label' => 'away', 'server_url' => 'http://127.0.0.1:9/mcp'];
        $this->configure(['servers' => ['other' => $entry + ['require_aproval' => 'always', 'register' => false]], 'log.channel' => false]);
        $this->app->make(\Pillion\ToolRegistry::class)->register(new \Pillion\DmcpTool($entry));
        self::assertSame('approval_required', Pillion::call('dmcp_roll_dice', ['dice' => '1d20'])->errorCode);
    }

    private static function modelWithGetter(array $tools): object
    {
        return new class ($tools) {
            public function __construct(private readonly array $tools)
            {
            }

            public function getTools(): array
            {
                return $this->tools;
            }
        };
    }
}
