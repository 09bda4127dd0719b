<?php

declare(strict_types=1);

namespace Pillion\Laravel\Models;

use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Registry\ModelKeys;
use Pillion\Laravel\ConfigReader;
use SensitiveParameter;

/**
 * The models of `pillion.models`, and of model lists such as HAWKI's config/model_lists/*.php.
 */
final class ModelDirectory
{
    /**
     * The default value of `model_lists`. Unlike a configured value, the default may name a
     * configuration that does not exist.
     */
    private const DEFAULT_LISTS = 'model_lists';

    /** The keys of an entry that contain credentials. */
    private const CREDENTIAL_KEYS = ['api_key' => true, 'headers' => true];

    public function __construct(private readonly Repository $config)
    {
    }

    /**
     * Returns the capabilities of a model: `function_calling`, `mcp`, `enabled_tools`, and `provider` if
     * known; never its credentials. An unknown model has the capabilities of `pillion.default_model`, which
     * allows no tools by default.
     *
     * @param string|array<string, mixed>|object $model the model's name or ID, or an array or object with its capabilities
     *
     * @return array<string, mixed>|object
     */
    public function capabilities(#[SensitiveParameter] string|array|object $model): array|object
    {
        $entry = $this->entry($model);
        return is_array($entry) ? array_diff_key($entry, self::CREDENTIAL_KEYS) : $entry;
    }

    /**
     * Returns the complete entry of a model, including its credentials, for requests to the model.
     *
     * @param string|array<string, mixed>|object $model as for {@see capabilities()}
     *
     * @return array<string, mixed>|object
     */
    public function entry(#[SensitiveParameter] string|array|object $model): array|object
    {
        if (!is_string($model)) {
            return self::checkKeys($model, 'model');
        }
        $configuredModel = ConfigReader::readArray($this->config, 'models')[$model] ?? null;
        $listedModel = $configuredModel === null ? $this->readModelLists()[$model] ?? null : null;
        return match (true) {
            $configuredModel !== null => self::checkKeys($configuredModel, "pillion.models.$model"),
            $listedModel !== null => self::checkKeys($listedModel, "model $model"),
            default => ConfigReader::readArray($this->config, 'default_model'),
        };
    }

    /** @return list<string> */
    public function names(): array
    {
        $names = [...array_keys(ConfigReader::readArray($this->config, 'models')), ...array_keys($this->readModelLists())];
        return array_values(array_unique(array_map('strval', $names)));
    }

    /**
     * Checks the keys that determine which tools the model sees, because the extension ignores
     * misspelled keys. Returns the model.
     *
     * @template T of array<string, mixed>|object
     *
     * @param T $model
     *
     * @return T
     *
     * @throws InvalidInputException
     */
    private static function checkKeys(#[SensitiveParameter] array|object $model, string $path): array|object
    {
        $hasGetter = is_object($model) && method_exists($model, 'getTools');
        $settings = is_array($model) ? $model : ($hasGetter ? $model->getTools() : get_object_vars($model));
        if (is_array($settings)) {
            ModelKeys::check($settings, $path);
        }
        return $model;
    }

    /**
     * Returns the models of the lists that `model_lists` names, by model ID.
     *
     * @return array<string, array<string, mixed>>
     *
     * @throws InvalidInputException when `model_lists` names a configuration that does not exist
     */
    private function readModelLists(): array
    {
        $key = ConfigReader::read($this->config, 'model_lists', self::DEFAULT_LISTS);
        if ($key !== self::DEFAULT_LISTS && !$this->config->has($key)) {
            throw new InvalidInputException("pillion.model_lists names the configuration '$key', which does not exist");
        }
        $models = [];
        foreach ((array) $this->config->get($key, []) as $modelList) {
            foreach (is_array($modelList) ? $modelList : [] as $model) {
                if (is_array($model) && is_string($model['id'] ?? null)) {
                    $models += [$model['id'] => $model];
                }
            }
        }
        return $models;
    }
}
