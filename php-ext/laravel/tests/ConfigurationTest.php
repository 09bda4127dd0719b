<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Configuration\KnownSettings;
use Pillion\Laravel\PillionServiceProvider;
use Pillion\Laravel\Tests\Support\ChecksConfiguration;
use Pillion\Laravel\Tests\Support\MutatedSettings;
use Pillion\Tests\Support\Expect;

/** A mistake in config/pillion.php has a documented meaning or is an error: no default replaces the setting in silence. */
final class ConfigurationTest extends TestCase
{
    use ChecksConfiguration;

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

    /**
     * The values of another type that a setting documents, by setting. All other values of a wrong
     * type are errors.
     */
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
        'console' => ['an empty array'],
        'console.path' => self::OPTIONAL_TEXT,
        'console.domain' => self::OPTIONAL_TEXT,
        'console.middleware' => self::NAMES,
        'console.stream_seconds' => self::WHOLE,
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

    public function test_every_misspelled_key_is_an_error_that_names_it(): void
    {
        $complete = MutatedSettings::complete();
        $count = 0;
        foreach (MutatedSettings::paths($complete) as $path) {
            $key = end($path);
            foreach (MutatedSettings::misspellings($key) as $mistake => $misspelled) {
                $wrong = [...array_slice($path, 0, -1), $misspelled];
                // A key of two letters is not compared: it may be misspelled or belong to the
                // application.
                if ($misspelled === $key || self::isKnown($wrong) || ($key === 'id' && strtolower(trim($misspelled)) !== 'id')) {
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
            $e = Expect::exception(InvalidInputException::class, fn () => (new PillionServiceProvider($this->app))->register(), failure: "$type was accepted");
            self::assertSame("pillion must be an array, not $type", $e->getMessage());
        }
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
