<?php

declare(strict_types=1);

namespace Pillion\Laravel\Configuration;

use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\NearestKey;
use Pillion\Fallback\Registry\ModelKeys;

/**
 * All keys of config/pillion.php, and the values that each key may have. An unknown key, a value of
 * a wrong type, and null without a documented meaning are errors, because the default that would
 * otherwise apply may permit more than the application intended.
 */
final class KnownSettings
{
    private const POLICIES = ['auto', 'always-ask', 'trusted-only', 'never', 'always', 'prompt'];
    private const LOG_LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];


    /**
     * Checks the whole configuration.
     *
     * @param mixed $settings the value of `config('pillion')`
     *
     * @throws InvalidInputException naming the full key, such as `pillion.approvals.policy`
     */
    public static function check(#[\SensitiveParameter] mixed $settings): void
    {
        Setting::group(self::all())->check('pillion', $settings);
    }

    /**
     * Checks the configuration except the entries of `servers` and `tools.services`. An invalid
     * entry of these settings does not invalidate the configuration, but is skipped.
     *
     * @throws InvalidInputException
     */
    public static function checkAtRunTime(#[\SensitiveParameter] mixed $settings): void
    {
        if (is_array($settings['servers'] ?? null)) {
            $settings['servers'] = [];
        }
        if (is_array($settings['tools']['services'] ?? null)) {
            $settings['tools']['services'] = [];
        }
        self::check($settings);
    }

    /** @return array<string, Setting> by key of config/pillion.php */
    public static function all(): array
    {
        static $settingsByKey = null;
        return $settingsByKey ??= [
            'servers' => Setting::map(self::server()),
            'tools' => Setting::group([
                'discover' => Setting::map(Setting::string()),
                'classes' => Setting::names(),
                'builtins' => Setting::names()->withAlternative('an array, true or false', is_bool(...)),
                'services' => Setting::group(array_fill_keys(['get_time', 'get_weather', 'web_search'], Setting::anyArray())),
                'aliases' => Setting::map(Setting::string()),
            ]),
            'models' => Setting::map(self::model(), self::rejectModelKeys(...)),
            'model_lists' => Setting::text('the name of a configuration file or folder'),
            'default_model' => self::modelEntry(),
            'chat' => Setting::group([
                'in' => Setting::choice('process', 'sidecar'),
                'model' => Setting::optionalText('the name of a model or null'),
                'options' => Setting::group(self::chatOptions()),
            ]),
            'approvals' => Setting::group([
                'policy' => Setting::choice(...self::POLICIES),
                'trusted_tools' => Setting::names(),
                'tools' => Setting::map(Setting::choice(...self::POLICIES)),
                'driver' => Setting::choice('cache', 'database'),
                'store' => Setting::optionalText('the name of a cache store or null'),
                'connection' => Setting::optionalText('the name of a database connection or null'),
                'table' => Setting::text('the name of a table'),
                'expires_after' => Setting::wholeNumber(),
                'max_pending' => Setting::limit(1, 'a whole number above zero, or null'),
                'max_pending_per_user' => Setting::limit(1, 'a whole number above zero, or null'),
            ]),
            'limits' => Setting::group(self::limits()),
            'cache' => Setting::group([
                'store' => Setting::optionalText('the name of a cache store or null'),
                'ttl' => Setting::wholeNumber(),
                'retry_after' => Setting::wholeNumber(),
            ]),
            'sidecar' => Setting::group([
                'socket' => Setting::optionalText('a path or null'),
                'timeout' => Setting::seconds(),
                'register' => Setting::flag(),
            ]),
            'console' => Setting::group([
                'path' => Setting::optionalText('a path or null'),
                'domain' => Setting::optionalText('a domain or null'),
                'middleware' => Setting::names(),
                'stream_seconds' => Setting::wholeNumber(),
            ]),
            'log' => Setting::group([
                'channel' => Setting::optionalText()->withAlternative('the name of a channel, null or false', fn (mixed $value) => $value === false),
                'level' => Setting::choice(...self::LOG_LEVELS),
            ]),
            'disconnect_on_terminate' => Setting::flag(),
        ];
    }

    /**
     * Returns the setting for an entry of `servers`. An entry with a tool class may have additional
     * keys, which that class reads.
     */
    public static function server(): Setting
    {
        static $serverSetting = null;
        return $serverSetting ??= Setting::group([
            'url' => Setting::optionalText(),
            'server_url' => Setting::optionalText(),
            'command' => Setting::names()->withAlternative('an array, a string or null', fn (mixed $value) => $value === null || is_string($value)),
            'args' => Setting::names(),
            'env' => Setting::map(Setting::string()),
            'inherit_env' => Setting::names(),
            'cwd' => Setting::text(),
            'token' => Setting::optionalText(),
            'api_key' => Setting::optionalText(),
            'timeout' => Setting::seconds(),
            'register' => Setting::flag(),
            'prefix' => Setting::string(),
            'only' => Setting::names(),
            'except' => Setting::names(),
            'require_approval' => Setting::choice('never', 'always', 'prompt'),
            'options' => Setting::anyArray(),
            'class' => Setting::text('the name of a class'),
            'type' => Setting::text(),
            'server_label' => Setting::text(),
            'server_description' => Setting::string(),
            'description' => Setting::string(),
        ], allowsUnknownKeys: fn (array $entry) => isset($entry['class']));
    }

    /**
     * Returns the setting that describes a model: an array with the settings of the model, or an
     * object with `getTools()`.
     */
    public static function model(): Setting
    {
        return self::modelEntry()->withAlternative('an array or an object', is_object(...));
    }

    /**
     * Finds a known setting on another level of the configuration whose name resembles an unknown
     * key. Returns the setting's full key, such as `approvals.policy`.
     */
    public static function findElsewhere(string $key): ?string
    {
        foreach (self::all() as $group => $setting) {
            if (NearestKey::find($key, [$group]) !== null) {
                return "pillion.$group";
            }
            foreach (array_keys($setting->members()) as $name) {
                if ($name === $key && $group !== 'default_model') {
                    return "pillion.$group.$name";
                }
            }
        }
        return null;
    }

    private static function modelEntry(): Setting
    {
        $capabilities = [
            'function_calling' => Setting::modelFlag(),
            'mcp' => Setting::modelFlag(),
            'enabled_tools' => Setting::names(),
        ];
        $members = $capabilities + [
            'tools' => Setting::group($capabilities, allowsUnknownKeys: fn () => true),
            'provider' => Setting::text(),
            'api' => Setting::text(),
            'base_url' => Setting::text(),
            'model' => Setting::text(),
            'id' => Setting::text(),
            'label' => Setting::string(),
            'api_key' => Setting::optionalText()->withAlternative('a string, a callable or null', is_callable(...)),
            'headers' => Setting::map(Setting::string()),
            'context_tokens' => Setting::wholeNumber(),
            'max_retries' => Setting::wholeNumber(),
            'reasoning' => Setting::flag(),
        ];
        $knownKeys = array_keys($members);
        // Unknown keys of a model are permitted, because an application's isEnabledForModel() may
        // read its own keys.
        return Setting::group($members, fn () => true, function (array $model, string $path) use ($knownKeys): void {
            Setting::rejectList($model, $path);
            ModelKeys::check($model, $path, $knownKeys);
        });
    }

    /** @return array<string, Setting> */
    private static function chatOptions(): array
    {
        return [
            'system' => Setting::string(),
            'enable_tools' => Setting::boolean(),
            'temperature' => Setting::number(),
            'top_p' => Setting::number(),
            'stop' => Setting::names(),
            'extra' => Setting::anyArray(),
            'max_output_tokens' => Setting::wholeNumber(),
            'timeout' => Setting::seconds(),
            'max_tool_calls' => Setting::wholeNumber(),
            'max_tool_rounds' => Setting::wholeNumber(),
            'max_calls_per_answer' => Setting::wholeNumber(),
            'max_total_tokens' => Setting::wholeNumber(),
        ];
    }

    /** @return array<string, Setting> */
    private static function limits(): array
    {
        $positiveNumber = Setting::wholeNumber(1, 'a whole number above zero');
        $windowLimits = Setting::group(array_fill_keys(
            ['per_minute', 'per_hour', 'per_day'],
            Setting::limit(0, 'a number of calls, at least 0, or null'),
        ));
        return [
            'timeout' => Setting::seconds(),
            'tool_timeouts' => Setting::map(Setting::seconds()),
            'max_concurrent' => $positiveNumber,
            'max_concurrent_local' => $positiveNumber,
            'max_concurrent_total' => $positiveNumber,
            'server_concurrency' => Setting::map($positiveNumber),
            'tool_concurrency' => Setting::map($positiveNumber),
            'queue_timeout' => Setting::seconds(),
            'max_output_bytes' => Setting::wholeNumber(),
            'max_rounds' => Setting::wholeNumber(),
            'max_calls' => Setting::wholeNumber(),
            'rate_limits' => Setting::group([
                'default' => $windowLimits,
                'tools' => Setting::map($windowLimits),
                'servers' => Setting::map($windowLimits),
            ]),
        ];
    }

    /**
     * Rejects `models` whose keys are the keys of a single model (such as `mcp`) in place of model
     * names.
     *
     * @param array<array-key, mixed> $models
     */
    private static function rejectModelKeys(#[\SensitiveParameter] array $models, string $path): void
    {
        foreach ([...ModelKeys::CAPABILITIES, 'tools', 'headers'] as $key) {
            if (array_key_exists($key, $models)) {
                throw new InvalidInputException("$path.$key has no effect: move it one level down, into the entry of a model");
            }
        }
    }
}
