<?php

declare(strict_types=1);

namespace Pillion\Laravel\Chat;

use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Models\ModelDirectory;
use SensitiveParameter;

/**
 * Reads the chat settings of config/pillion.php.
 *
 * @internal
 */
final class ChatConfig
{
    /** The options that are numbers. Environment variables provide them as strings. */
    private const NUMERIC_OPTIONS = ['temperature', 'max_output_tokens', 'timeout', 'top_p', 'max_tool_calls', 'max_tool_rounds', 'max_calls_per_answer', 'max_total_tokens'];

    public function __construct(private readonly Repository $config, private readonly ModelDirectory $models)
    {
    }

    /** Returns whether the tool loop runs in the sidecar. */
    public function runsInSidecar(): bool
    {
        return ConfigReader::read($this->config, 'chat.in', 'process') === 'sidecar';
    }

    /** Returns the default model; null for the sidecar's default. */
    public function defaultModel(): ?string
    {
        return ConfigReader::readOptionalText($this->config, 'chat.model');
    }

    /**
     * Returns a model as `ToolAwareChat` expects it, with its credentials.
     *
     * @param string|array<string, mixed> $model the model's name, or its entry
     *
     * @return array<string, mixed>
     *
     * @throws InvalidInputException when no model has this name
     */
    public function model(#[SensitiveParameter] string|array $model): array
    {
        $entry = $this->models->entry($model);
        if (is_string($model)) {
            if (!in_array($model, $this->models->names(), true)) {
                throw new InvalidInputException("Unknown model '$model': add it to pillion.models");
            }
            if (!is_array($entry)) {
                throw ConfigReader::invalid("models.$model", 'must be an array for chats', $entry);
            }
            if (!isset($entry['model']) && !isset($entry['id'])) {
                $entry['model'] = $model;
            }
        }
        return $entry;
    }

    /**
     * @param array<string, mixed> $overrides
     *
     * @return array<string, mixed> the options of `ToolAwareChat`
     *
     * @throws InvalidInputException when an option is null
     */
    public function options(array $overrides): array
    {
        foreach (array_keys($overrides, null, true) as $name) {
            throw new InvalidInputException("Invalid chat option '$name': it must not be null");
        }
        $configuredOptions = ConfigReader::readArray($this->config, 'chat.options');
        if (!$this->runsInSidecar()) {
            $configuredOptions += [
                'max_tool_rounds' => ConfigReader::readWholeNumber($this->config, 'limits.max_rounds', 5),
                'max_tool_calls' => ConfigReader::readWholeNumber($this->config, 'limits.max_calls', 5),
            ];
        }
        foreach (array_intersect_key($configuredOptions, array_flip(self::NUMERIC_OPTIONS)) as $key => $value) {
            $configuredOptions[$key] = ConfigReader::toNumber($value);
        }
        return $overrides + $configuredOptions;
    }
}
