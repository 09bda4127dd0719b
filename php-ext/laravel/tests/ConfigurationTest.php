<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Chat\ChatConfig;
use Pillion\Laravel\Configuration\KnownSettings;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\PillionServiceProvider;
use Pillion\Laravel\Tests\Support\Laravel;
use Pillion\Laravel\Tests\Support\MutatedSettings;
use Symfony\Component\Console\Exception\InvalidOptionException;

/** A mistake in config/pillion.php has a documented meaning or is an error: no default replaces the setting in silence. */
final class ConfigurationTest extends TestCase
{
    private const TEXT = ['text', 'a number as text'];
    private const OPTIONAL_TEXT = ['null', 'an empty string', ...self::TEXT];
    private const ANY_TEXT = ['an empty string', ...self::TEXT];
    private const NAMES = ['an empty array', 'a list of texts'];
    private const WHOLE = ['a number as text', 'zero', 'a number'];
    private const POSITIVE = ['a number as text', 'a number'];
    private const SECONDS = [...self::WHOLE, 'a fraction'];
    private const NUMBER = [...self::SECONDS, 'a negative number'];
    private const FLAG = ['true', 'false', 'zero'];
    private const MODEL_FLAG = [...self::FLAG, 'null', 'an empty string'];
    private const LIMIT = ['null', ...self::POSITIVE];
    private const CALLS = ['null', ...self::WHOLE];
    private const TEXTS_BY_NAME = ['an empty array', 'texts by name'];
    private const ANY_ARRAY = ['an empty array', 'a list of texts', 'a list of numbers', 'a list of null', 'texts by name', 'null by name', 'arrays by name'];

    /** The values of the wrong types that a setting documents, by setting; all others are errors. */
    private const ACCEPTED = [
        'servers' => ['an empty array'],
        'servers.own' => ['an empty array'],
        'servers.own.url' => self::OPTIONAL_TEXT,
        'servers.own.server_url' => self::OPTIONAL_TEXT,
        'servers.own.command' => [...self::OPTIONAL_TEXT, ...self::NAMES],
        'servers.own.args' => self::NAMES,
        'servers.own.env' => self::TEXTS_BY_NAME,
        'servers.own.inherit_env' => self::NAMES,
        'servers.own.cwd' => self::TEXT,
        'servers.own.token' => self::OPTIONAL_TEXT,
        'servers.own.api_key' => self::OPTIONAL_TEXT,
        'servers.own.timeout' => self::SECONDS,
        'servers.own.register' => self::FLAG,
        'servers.own.prefix' => self::ANY_TEXT,
        'servers.own.only' => self::NAMES,
        'servers.own.except' => self::NAMES,
        'servers.own.require_approval' => [],
        'servers.own.options' => self::ANY_ARRAY,
        'servers.own.type' => self::TEXT,
        'servers.own.server_label' => self::TEXT,
        'servers.own.server_description' => self::ANY_TEXT,
        'servers.own.description' => self::ANY_TEXT,
        'tools' => ['an empty array'],
        'tools.discover' => self::TEXTS_BY_NAME,
        'tools.classes' => self::NAMES,
        'tools.builtins' => [...self::NAMES, 'true', 'false'],
        'tools.services' => ['an empty array'],
        'tools.services.get_time' => self::ANY_ARRAY,
        'tools.services.get_weather' => self::ANY_ARRAY,
        'tools.services.web_search' => self::ANY_ARRAY,
        'tools.aliases' => self::TEXTS_BY_NAME,
        'models' => ['an empty array', 'arrays by name'],
        'model_lists' => self::TEXT,
        // A model may have keys of the application.
        'default_model' => ['an empty array', 'texts by name', 'null by name', 'arrays by name'],
        'chat' => ['an empty array'],
        'chat.in' => [],
        'chat.model' => self::OPTIONAL_TEXT,
        'chat.options' => ['an empty array'],
        'chat.options.system' => self::ANY_TEXT,
        'chat.options.enable_tools' => ['true', 'false'],
        'chat.options.temperature' => self::NUMBER,
        'chat.options.top_p' => self::NUMBER,
        'chat.options.stop' => self::NAMES,
        'chat.options.extra' => self::ANY_ARRAY,
        'chat.options.max_output_tokens' => self::WHOLE,
        'chat.options.timeout' => self::SECONDS,
        'chat.options.max_tool_calls' => self::WHOLE,
        'chat.options.max_tool_rounds' => self::WHOLE,
        'chat.options.max_calls_per_answer' => self::WHOLE,
        'chat.options.max_total_tokens' => self::WHOLE,
        'approvals' => ['an empty array'],
        'approvals.policy' => [],
        'approvals.trusted_tools' => self::NAMES,
        'approvals.tools' => ['an empty array'],
        'approvals.driver' => [],
        'approvals.store' => self::OPTIONAL_TEXT,
        'approvals.connection' => self::OPTIONAL_TEXT,
        'approvals.table' => self::TEXT,
        'approvals.expires_after' => self::WHOLE,
        'approvals.max_pending' => self::LIMIT,
        'approvals.max_pending_per_user' => self::LIMIT,
        'limits' => ['an empty array'],
        'limits.timeout' => self::SECONDS,
        'limits.tool_timeouts' => ['an empty array'],
        'limits.max_concurrent' => self::POSITIVE,
        'limits.max_concurrent_local' => self::POSITIVE,
        'limits.max_concurrent_total' => self::POSITIVE,
        'limits.server_concurrency' => ['an empty array'],
        'limits.tool_concurrency' => ['an empty array'],
        'limits.queue_timeout' => self::SECONDS,
        'limits.max_output_bytes' => self::WHOLE,
        'limits.max_rounds' => self::WHOLE,
        'limits.max_calls' => self::WHOLE,
        'limits.rate_limits' => ['an empty array'],
        'limits.rate_limits.default' => ['an empty array'],
        'limits.rate_limits.default.per_minute' => self::CALLS,
        'limits.rate_limits.default.per_hour' => self::CALLS,
        'limits.rate_limits.default.per_day' => self::CALLS,
        'limits.rate_limits.tools' => ['an empty array'],
        'limits.rate_limits.tools.own.per_minute' => self::CALLS,
        'limits.rate_limits.tools.own.per_hour' => self::CALLS,
        'limits.rate_limits.tools.own.per_day' => self::CALLS,
        'limits.rate_limits.servers' => ['an empty array'],
        'limits.rate_limits.servers.own.per_minute' => self::CALLS,
        'limits.rate_limits.servers.own.per_hour' => self::CALLS,
        'limits.rate_limits.servers.own.per_day' => self::CALLS,
        'cache' => ['an empty array'],
        'cache.store' => self::OPTIONAL_TEXT,
        'cache.ttl' => self::WHOLE,
        'cache.retry_after' => self::WHOLE,
        'sidecar' => ['an empty array'],
        'sidecar.socket' => self::OPTIONAL_TEXT,
        'sidecar.timeout' => self::SECONDS,
        'sidecar.register' => self::FLAG,
        'log' => ['an empty array'],
        'log.channel' => [...self::OPTIONAL_TEXT, 'false'],
        'log.level' => [],
        'disconnect_on_terminate' => self::FLAG,
    ];

    /** Arrays whose keys another class checks when a server, a service or a chat is created. */
    private const CHECKED_AT_USE = [
        'servers.own.options',
        'tools.services.get_time',
        'tools.services.get_weather',
        'tools.services.web_search',
        'chat.options.extra',
    ];

    private const MODEL_KEYS = [
        'function_calling' => self::MODEL_FLAG,
        'mcp' => self::MODEL_FLAG,
        'enabled_tools' => self::NAMES,
        'provider' => self::TEXT,
        'api' => self::TEXT,
        'base_url' => self::TEXT,
        'model' => self::TEXT,
        'id' => self::TEXT,
        'label' => self::ANY_TEXT,
        'api_key' => self::OPTIONAL_TEXT,
        'headers' => self::TEXTS_BY_NAME,
        'context_tokens' => self::WHOLE,
        'max_retries' => self::WHOLE,
        'reasoning' => self::FLAG,
    ];

    public function test_the_table_knows_every_key_of_the_packages_file(): void
    {
        foreach (require __DIR__ . '/../config/pillion.php' as $key => $value) {
            $known = KnownSettings::all()[$key];
            if (is_array($value) && !in_array($key, ['servers', 'models'], true)) {
                self::assertSame([], array_diff(array_keys($value), array_keys($known->members())), $key);
            }
        }
        $this->checks(require __DIR__ . '/../config/pillion.php');
        $this->checks([]);
        $this->checks(MutatedSettings::complete());
    }

    public function test_every_misspelt_key_is_an_error_that_names_it(): void
    {
        $complete = MutatedSettings::complete();
        $count = 0;
        foreach (MutatedSettings::paths($complete) as $path) {
            $key = end($path);
            foreach (MutatedSettings::misspellings($key) as $mistake => $misspelt) {
                $wrong = [...array_slice($path, 0, -1), $misspelt];
                // Two letters are too few to tell a misspelt key of a model from a key of the application.
                if ($misspelt === $key || self::isKnown($wrong) || ($key === 'id' && strtolower(trim($misspelt)) !== 'id')) {
                    continue;
                }
                $settings = MutatedSettings::with(MutatedSettings::without($complete, $path), $wrong, MutatedSettings::get($complete, $path));
                $this->assertRejected($settings, $wrong, $mistake);
                $count++;
            }
        }
        self::assertGreaterThan(500, $count);
    }

    public function test_null_and_wrong_types_are_errors_unless_documented(): void
    {
        $complete = MutatedSettings::complete();
        foreach (MutatedSettings::paths($complete) as $path) {
            $accepted = self::accepted($path);
            foreach (MutatedSettings::values() as $name => $value) {
                $settings = MutatedSettings::with($complete, $path, $value);
                if (in_array($name, $accepted, true)) {
                    $this->checks($settings);
                } else {
                    $this->assertRejected($settings, $path, $name);
                }
            }
        }
    }

    public function test_a_key_one_level_too_deep_or_too_high_is_an_error(): void
    {
        $complete = MutatedSettings::complete();
        foreach (MutatedSettings::paths($complete) as $path) {
            $value = MutatedSettings::get($complete, $path);
            $others = MutatedSettings::without($complete, $path);
            if (!in_array(implode('.', $path), self::CHECKED_AT_USE, true)) {
                $this->assertRejected(MutatedSettings::with($others, [...$path, end($path)], $value), $path, 'one level too deep');
            }
            $higher = [...array_slice($path, 0, -2), end($path)];
            if (count($path) > 1 && $value !== [] && !self::isKnown($higher)) {
                $this->assertRejected(MutatedSettings::with($others, $higher, $value), $higher, 'one level too high');
            }
        }
    }

    public function test_the_file_returns_an_array(): void
    {
        foreach (['null' => null, 'int' => 1, 'string' => 'x', 'bool' => false] as $type => $value) {
            $this->app->make('config')->set('pillion', $value);
            try {
                (new PillionServiceProvider($this->app))->register();
                self::fail("$type was accepted");
            } catch (InvalidInputException $e) {
                self::assertSame("pillion must be an array, not $type", $e->getMessage());
            }
        }
    }

    public function test_a_models_keys_are_found_in_all_shapes(): void
    {
        $misspelt = [
            'enabled_tool' => ['enabled_tool' => ['get_time']],
            'enabledTools' => ['enabledTools' => ['get_time']],
            'allowed_tools' => ['allowed_tools' => ['get_time']],
            'tool' => ['tool' => ['enabled_tools' => ['get_time']]],
            'enabled_tools' => ['enabled_tools' => null],
            'tools.enabled_tool' => ['tools' => ['function_calling' => true, 'enabled_tool' => ['get_time']]],
            'tools.enabled_tools' => ['tools' => ['function_calling' => true, 'enabled_tools' => null]],
            'limits.enabled_tools' => ['limits' => ['enabled_tools' => ['get_time']]],
        ];
        foreach ($misspelt as $key => $wrong) {
            $model = isset($wrong['tools']) ? $wrong : ['function_calling' => true] + $wrong;
            $this->assertRejected(['models' => ['m' => $model]], ['models', 'm', ...explode('.', $key)], $key);
            $this->assertRejected(['default_model' => $model], ['default_model', ...explode('.', $key)], $key);
            foreach ([$model, (object) $model, self::modelWithGetter($model['tools'] ?? $model)] as $shape) {
                try {
                    self::fail("$key: " . json_encode(Pillion::forModel($shape)->names()));
                } catch (InvalidInputException $e) {
                    self::assertStringContainsString(strrchr(".$key", '.'), $e->getMessage());
                }
            }
        }
        $beside = ['enabled_tools' => ['get_time'], 'tools' => ['function_calling' => true]];
        $this->assertRejected(['models' => ['m' => $beside]], ['models', 'm', 'enabled_tools'], 'beside tools');
        $this->assertRejected(['models' => ['enabled_tools' => ['get_time']]], ['models', 'enabled_tools'], 'in the list of models');
        $this->assertRejected(['models' => [['id' => 'm', 'tools' => []]]], ['models'], 'a list of models');
        $this->checks(['models' => ['m' => ['function_calling' => true, 'price' => 3, 'notes' => ['x' => 'y'], 'tool_prompt' => 'x']]]);
    }

    public function test_a_model_list_with_a_misspelt_key_or_without_a_file_is_an_error(): void
    {
        config(['model_lists' => ['own' => [['id' => 'm', 'tools' => ['function_calling' => true, 'enabled_tool' => ['get_time']]]]]]);
        try {
            self::fail(json_encode(Pillion::forModel('m')->names()));
        } catch (InvalidInputException $e) {
            self::assertSame("model m.tools.enabled_tool is unknown: did you mean 'enabled_tools'?", $e->getMessage());
        }
        $this->configure(['model_lists' => 'modellists']);
        $this->expectExceptionMessage("pillion.model_lists names the configuration 'modellists', which does not exist");
        Pillion::forModel('m');
    }

    public function test_the_entry_of_a_tool_class_may_have_keys_of_the_class_but_none_that_is_misspelt(): void
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

    /**
     * @dataProvider settingsThatOpen
     *
     * @param array<string, mixed> $settings
     */
    public function test_no_call_runs_with_a_mistake_made_at_run_time(array $settings, string $key): void
    {
        config(['pillion' => $settings + config('pillion')]);
        foreach ([fn () => Pillion::call('get_time'), fn () => Pillion::forModel(['function_calling' => true])->names(), fn () => Pillion::approvals()] as $use) {
            $this->app->forgetScopedInstances();
            Pillion::clearResolvedInstances();
            try {
                self::fail(json_encode($use()));
            } catch (InvalidInputException $e) {
                self::assertStringContainsString("pillion.$key", $e->getMessage());
            }
        }
    }

    /** @return array<string, array{array<string, mixed>, string}> */
    public static function settingsThatOpen(): array
    {
        return [
            'a misspelt group' => [['approval' => ['policy' => 'always-ask']], "approval is unknown: expected one of servers, tools, models, model_lists, default_model, chat, approvals, limits, cache, sidecar, log, disconnect_on_terminate; did you mean 'approvals'?"],
            'a capital' => [['Approvals' => ['policy' => 'always-ask']], 'Approvals is unknown'],
            'a group that is null' => [['approvals' => null], 'approvals must be an array, not null'],
            'a setting without its group' => [['policy' => 'always-ask'], "policy is unknown: expected one of servers, tools, models, model_lists, default_model, chat, approvals, limits, cache, sidecar, log, disconnect_on_terminate; did you mean 'pillion.approvals.policy'?"],
            'another misspelt group' => [['limit' => ['max_calls' => 1]], 'limit is unknown'],
            'a misspelt list' => [['tools' => ['builtin' => []]], "tools.builtin is unknown: expected one of discover, classes, builtins, services, aliases; did you mean 'builtins'?"],
            'a list that is null' => [['tools' => ['builtins' => null]], 'tools.builtins must be an array, true or false, not null'],
            'a rate limit' => [['limits' => ['rate_limits' => null]], 'limits.rate_limits must be an array, not null'],
            'a chat option' => [['chat' => ['options' => ['max_tool_calls' => null]]], 'chat.options.max_tool_calls must be a whole number, at least 0, not null'],
        ];
    }

    /**
     * @dataProvider settingsThatOpen
     *
     * @param array<string, mixed> $settings
     */
    public function test_no_application_starts_with_a_mistake_in_its_file_or_its_cached_configuration(array $settings, string $key): void
    {
        $this->folder->write('config/pillion.php', '<?php return ' . var_export($settings, true) . ';');
        $this->assertStartFails("pillion.$key");

        // A configuration that an earlier version cached.
        $this->folder->write('config/pillion.php', '<?php return [];');
        Laravel::artisan($this->folder->path, 'config:cache');
        $file = $this->folder->path . '/bootstrap/cache/config.php';
        $cached = require $file;
        file_put_contents($file, '<?php return ' . var_export(['pillion' => $settings + $cached['pillion']] + $cached, true) . ';');
        $this->assertStartFails("pillion.$key");
        $this->assertStartFails("(cached: delete $file after the correction)");
    }

    public function test_variables_that_are_unset_or_empty_keep_their_meaning(): void
    {
        $names = ['PILLION_CHAT_MODEL', 'PILLION_APPROVALS_STORE', 'PILLION_APPROVALS_CONNECTION', 'PILLION_CACHE_STORE', 'PILLION_SOCKET', 'PILLION_LOG_CHANNEL'];
        $this->folder->write('.env', implode("\n", array_map(fn (string $name) => "$name=", $names)));
        $code = 'return array_map(fn (string $key) => config("pillion.$key"), ["chat.model", "approvals.store", "approvals.connection", "cache.store", "sidecar.socket", "log.channel"]);';
        self::assertSame(array_fill(0, 6, ''), Laravel::evaluate($this->folder->path, $code));
        $code = 'Pillion\Laravel\Facades\Pillion::approvals()->pending(); return app(Pillion\Laravel\Chat\ChatConfig::class)->defaultModel();';
        self::assertNull(Laravel::evaluate($this->folder->path, $code));
        foreach (['PILLION_APPROVALS' => 'approvals.policy', 'PILLION_APPROVALS_DRIVER' => 'approvals.driver', 'PILLION_CHAT_IN' => 'chat.in', 'PILLION_LOG_LEVEL' => 'log.level'] as $name => $key) {
            $this->folder->write('.env', "$name=\n");
            $this->assertStartFails("pillion.$key must be ");
        }
    }

    public function test_null_is_no_option_in_place_of_a_setting(): void
    {
        $uses = [
            "executor option 'approvals'" => fn () => Pillion::executor(['approvals' => null]),
            "executor option 'timeout'" => fn () => Pillion::executor(['before' => null, 'timeout' => null]),
            "executor option 'max_output_bytes'" => fn () => Pillion::executor(['max_output_bytes' => null]),
            "chat option 'enable_tools'" => fn () => $this->app->make(ChatConfig::class)->options(['enable_tools' => null]),
            "chat option 'max_tool_calls'" => fn () => $this->app->make(ChatConfig::class)->options(['max_tool_calls' => null]),
        ];
        foreach ($uses as $option => $use) {
            try {
                $use();
                self::fail("Accepted: $option");
            } catch (InvalidInputException $e) {
                self::assertSame("Invalid $option: it must not be null", $e->getMessage());
            }
        }
        Pillion::executor(['approve' => null, 'before' => null]);
    }

    public function test_an_option_of_a_command_is_not_empty(): void
    {
        foreach (['pillion:call get_time --user=', 'pillion:approvals --tenant=', 'pillion:approvals --user=', 'pillion:approvals approve x --by=', 'pillion:tools --model=', 'pillion:probe dice --user=', 'pillion:work --name='] as $command) {
            try {
                self::fail(json_encode($this->artisanOutput($command)));
            } catch (InvalidOptionException $e) {
                self::assertStringContainsString('must not be empty', $e->getMessage());
            }
        }
        self::assertSame(0, $this->artisanOutput('pillion:call get_time --user=alice')[0]);
    }

    public function test_only_one_class_reads_the_configuration(): void
    {
        $readers = [];
        foreach (new \RecursiveIteratorIterator(new \RecursiveDirectoryIterator(__DIR__ . '/../src', \FilesystemIterator::SKIP_DOTS)) as $file) {
            if (preg_match('/[\'"]pillion[.\'"][^\n]*[,)]/', self::codeOf($file->getPathname())) === 1) {
                $readers[] = $file->getFilename();
            }
        }
        sort($readers);
        self::assertSame(['ConfigReader.php', 'PillionServiceProvider.php'], $readers);
    }

    private static function codeOf(string $file): string
    {
        $lines = preg_grep('/->(get|has)\(/', explode("\n", (string) file_get_contents($file)));
        return implode("\n", $lines);
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

    /** Runs a command, and asserts that the application does not start, because of this error. */
    private function assertStartFails(string $message): void
    {
        // The error is printed in lines of 80 characters.
        $printed = preg_replace('/\s+/', '', Laravel::artisan($this->folder->path, 'list'));
        self::assertStringContainsString(preg_replace('/\s+/', '', $message), $printed);
        self::assertStringNotContainsString('Availablecommands', $printed);
    }

    /** @param array<string, mixed> $settings */
    private function checks(array $settings): void
    {
        $this->register($settings);
        $this->addToAssertionCount(1);
    }

    /**
     * @param array<string, mixed> $settings
     * @param list<string>         $path
     */
    private function assertRejected(array $settings, array $path, string $mistake): void
    {
        try {
            $this->register($settings);
            self::fail(implode('.', $path) . " was accepted: $mistake");
        } catch (InvalidInputException $e) {
            self::assertStringContainsString('pillion.' . implode('.', $path), $e->getMessage(), $mistake);
        }
    }

    /** @param array<string, mixed> $settings */
    private function register(array $settings): void
    {
        $this->app->make('config')->set('pillion', $settings);
        (new PillionServiceProvider($this->app))->register();
    }

    /**
     * @param list<string> $path
     *
     * @return list<string>
     */
    private static function accepted(array $path): array
    {
        return self::isOfModel($path) ? self::MODEL_KEYS[end($path)] : self::ACCEPTED[implode('.', $path)];
    }

    /** @param list<string> $path */
    private static function isKnown(array $path): bool
    {
        return self::isOfModel($path) ? isset(self::MODEL_KEYS[end($path)]) : isset(self::ACCEPTED[implode('.', $path)]);
    }

    /** @param list<string> $path */
    private static function isOfModel(array $path): bool
    {
        return array_slice($path, 0, -1) === ['default_model'] || ($path[0] === 'models' && count($path) === 3);
    }
}
