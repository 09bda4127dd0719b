<?php

declare(strict_types=1);

namespace Pillion\Laravel\Chat;

use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\Configured;
use Pillion\Laravel\Models\ModelDirectory;
use SensitiveParameter;

/**
 * Reads the chat settings of config/pillion.php.
 *
 * @internal
 */
final class Chats
{
    /** Numeric options, which may come from the environment as strings. */
    private const NUMBERS = ['temperature', 'max_output_tokens', 'timeout', 'top_p', 'max_tool_calls', 'max_tool_rounds', 'max_calls_per_answer', 'max_total_tokens'];

    public function __construct(private readonly Repository $config, private readonly ModelDirectory $models)
    {
    }

    /** Returns whether the tool loop runs in the sidecar. */
    public function inSidecar(): bool
    {
        $place = $this->config->get('pillion.chat.in', 'process');
        return match ($place) {
            'process' => false,
            'sidecar' => true,
            default => throw Configured::wrong('chat.in', 'must be process or sidecar', $place),
        };
    }

    /** Returns the default model; null for the sidecar's default. */
    public function defaultModel(): ?string
    {
        $model = $this->config->get('pillion.chat.model');
        return is_string($model) && $model !== '' ? $model : null;
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
                throw new InvalidInputException("pillion.models has no model '$model' to chat with");
            }
            if (!is_array($entry)) {
                throw Configured::wrong("models.$model", 'must be an array to chat with', $entry);
            }
            if (!isset($entry['model']) && !isset($entry['id'])) {
                $entry['model'] = $model;
            }
        }
        return $entry;
    }

    /**
     * @param array<string, mixed> $own
     *
     * @return array<string, mixed> the options of `ToolAwareChat`
     */
    public function options(array $own): array
    {
        $configured = Configured::array($this->config, 'chat.options');
        if (!$this->inSidecar()) {
            $configured += [
                'max_tool_rounds' => (int) $this->config->get('pillion.limits.max_rounds', 5),
                'max_tool_calls' => (int) $this->config->get('pillion.limits.max_calls', 5),
            ];
        }
        foreach (array_intersect_key($configured, array_flip(self::NUMBERS)) as $key => $value) {
            $configured[$key] = Configured::number($value);
        }
        return $own + $configured;
    }
}
