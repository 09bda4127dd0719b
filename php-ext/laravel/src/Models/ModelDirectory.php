<?php

declare(strict_types=1);

namespace Pillion\Laravel\Models;

use Illuminate\Contracts\Config\Repository;
use Pillion\Laravel\ConfigReader;
use SensitiveParameter;

/**
 * The models of `pillion.models`, and of model lists such as HAWKI's config/model_lists/*.php.
 */
final class ModelDirectory
{
    /** The keys of an entry that contain credentials. */
    private const CREDENTIALS = ['api_key' => true, 'headers' => true];

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
        return is_array($entry) ? array_diff_key($entry, self::CREDENTIALS) : $entry;
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
            return $model;
        }
        $configured = ConfigReader::readArray($this->config, 'models')[$model] ?? null;
        if ($configured !== null && !is_array($configured) && !is_object($configured)) {
            throw ConfigReader::invalid("models.$model", 'must be an array or an object', $configured);
        }
        return $configured ?? $this->modelsOfLists()[$model] ?? ConfigReader::readArray($this->config, 'default_model');
    }

    /** @return list<string> */
    public function names(): array
    {
        $names = [...array_keys(ConfigReader::readArray($this->config, 'models')), ...array_keys($this->modelsOfLists())];
        return array_values(array_unique(array_map('strval', $names)));
    }

    /** @return array<string, array<string, mixed>> the models of the lists, by id */
    private function modelsOfLists(): array
    {
        $key = $this->config->get('pillion.model_lists');
        $models = [];
        foreach (is_string($key) ? (array) $this->config->get($key, []) : [] as $list) {
            foreach (is_array($list) ? $list : [] as $model) {
                if (is_array($model) && is_string($model['id'] ?? null)) {
                    $models += [$model['id'] => $model];
                }
            }
        }
        return $models;
    }
}
