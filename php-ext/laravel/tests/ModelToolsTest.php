<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Tests\Support\Expect;

final class ModelToolsTest extends TestCase
{
    protected function files(): array
    {
        return [
            // HAWKI's format for the capabilities of its models.
            'config/model_lists/gwdg_models.php' => <<<'PHP'
                <?php
                return [
                    ['id' => 'meta-llama-3.1-8b-instruct', 'tools' => ['function_calling' => true, 'enabled_tools' => ['calculator', 'far_roll']]],
                    ['id' => 'with.dots', 'tools' => ['function_calling' => true, 'mcp' => true, 'enabled_tools' => ['far_roll']]],
                    ['id' => 'no-tools', 'tools' => ['function_calling' => false, 'mcp' => true]],
                ];
                PHP,
        ];
    }

    protected function setUp(): void
    {
        parent::setUp();
        $this->configure(['servers' => ['far' => ['url' => 'http://127.0.0.1:9/mcp']]]);
        Pillion::fake(['far_roll' => ['total' => 15]]);
    }

    public function test_h2_the_mcp_flag_and_the_list_decide_what_a_model_sees(): void
    {
        self::assertSame(['calculator'], Pillion::forModel('meta-llama-3.1-8b-instruct')->names());
        self::assertSame(['far_roll'], Pillion::forModel('with.dots')->names());
        self::assertSame([], Pillion::forModel('no-tools')->names());
        $this->configure(['models' => ['with.dots' => ['function_calling' => true, 'mcp' => true]]]);
        self::assertCount(4, Pillion::forModel('with.dots'));
    }

    public function test_d6_tools_of_services_are_registered_if_configured(): void
    {
        $model = ['function_calling' => true, 'enabled_tools' => ['calculator', 'get_weather']];
        $this->configure(['tools.services' => ['get_weather' => []]]);
        self::assertSame(['calculator', 'get_weather'], Pillion::forModel($model)->names());
    }

    public function test_d6_an_invalid_service_is_skipped(): void
    {
        $model = ['function_calling' => true, 'enabled_tools' => ['calculator', 'get_weather', 'web_search']];
        $services = ['web_search' => ['provider' => 'brave', 'api_key_env' => 'NO_SUCH_KEY'], 'get_weather' => [], 'forecast' => []];
        foreach ([true, ['calculator', 'get_weather', 'web_search']] as $builtins) {
            $this->configure(['tools.services' => $services, 'tools.builtins' => $builtins]);
            self::assertSame(['calculator', 'get_weather'], Pillion::forModel($model)->names());
        }
        self::assertSame(['pillion.tools.services.web_search', 'pillion.tools.services.forecast'], array_keys(Pillion::skipped()));
    }

    public function test_h2_an_unlisted_model_sees_and_calls_nothing_by_default(): void
    {
        $call = ['id' => 'a', 'name' => 'calculator', 'arguments' => ['expression' => '6 * 7']];
        $unknown = fn () => Pillion::forModel('not in any list');
        self::assertSame([], $unknown()->names());
        self::assertSame([], $unknown()->format());
        self::assertSame('not_found', $unknown()->execute([$call])[0]->errorCode);

        $this->configure(['default_model' => ['function_calling' => true, 'enabled_tools' => ['calculator']]]);
        self::assertSame(['calculator'], $unknown()->names());
        self::assertTrue($unknown()->execute([$call])[0]->success);
        $this->configure(['default_model' => ['function_calling' => true]]);
        self::assertSame(['calculator', 'get_time', 'roll_dice'], $unknown()->names());

        // An older published configuration may lack this key.
        $this->configure(['default_model' => []]);
        self::assertSame([], $unknown()->names());
    }

    public function test_h2_a_model_may_be_an_array_or_an_object(): void
    {
        self::assertSame(['far_roll'], Pillion::forModel(
            ['tools' => ['function_calling' => true, 'mcp' => true, 'enabled_tools' => ['far_roll']]],
        )->names());
        $model = new class {
            /** @return array<string, mixed> */
            public function getTools(): array
            {
                return ['function_calling' => true, 'mcp' => true, 'enabled_tools' => ['far_roll']];
            }
        };
        self::assertSame(['far_roll'], Pillion::forModel($model)->names());
        Expect::exception(InvalidInputException::class, fn () => Pillion::forModel(['tools' => ['function_calling' => 'yes, please']])->names());
    }

    public function test_h1_the_tools_have_the_format_of_the_models_provider(): void
    {
        $model = ['function_calling' => true, 'enabled_tools' => ['calculator']];
        self::assertSame('calculator', Pillion::forModel($model)->format()[0]['function']['name']);
        self::assertArrayHasKey('input_schema', Pillion::forModel($model)->format('anthropic')[0]);
        $this->configure(['models' => ['other-provider' => $model + ['provider' => 'anthropic']]]);
        self::assertArrayHasKey('input_schema', Pillion::forModel('other-provider')->format()[0]);
    }

    public function test_a_model_cannot_call_hidden_tools(): void
    {
        $tools = Pillion::forModel('meta-llama-3.1-8b-instruct');
        $results = $tools->execute([
            ['id' => 'a', 'name' => 'calculator', 'arguments' => ['expression' => '6 * 7']],
            ['id' => 'b', 'name' => 'far_roll', 'arguments' => []],
            ['id' => 'c', 'name' => 'get_time', 'arguments' => []],
        ]);
        self::assertSame(['a', 'b', 'c'], array_column($results, 'toolCallId'));
        self::assertSame([null, 'not_found', 'not_found'], array_column($results, 'errorCode'));
        Pillion::assertToolNotCalled('far_roll');
    }

    public function test_servers_are_not_contacted_for_a_model_without_mcp(): void
    {
        $this->app->make(\Pillion\Laravel\Hooks::class)->fake = null;
        $this->app->forgetInstance(\Pillion\Laravel\PillionManager::class);
        Pillion::forModel('meta-llama-3.1-8b-instruct')->names();
        self::assertSame([], Pillion::skipped());
        Pillion::forModel('with.dots')->names();
        self::assertSame(['far'], array_keys(Pillion::skipped()), 'it does not answer');
    }
}
