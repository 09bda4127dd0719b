<?php

declare(strict_types=1);

namespace Pillion\Laravel\Models;

/** Reads single flags of a model's capabilities; the registry reads the others. */
final class ModelCapabilities
{
    /** Returns whether the model may see tools of MCP servers, and thus whether to load them. */
    public static function allowsMcpTools(array|object $model): bool
    {
        $tools = self::tools($model);
        return ($tools['function_calling'] ?? false) && ($tools['mcp'] ?? false);
    }

    /** Returns the format of the model's requests: a provider of `ProviderFormat`. */
    public static function provider(array|object $model): string
    {
        $fields = is_array($model) ? $model : get_object_vars($model);
        $provider = $fields['provider'] ?? self::tools($model)['provider'] ?? null;
        return is_string($provider) && $provider !== '' ? $provider : 'openai';
    }

    /** @return array<string, mixed> */
    private static function tools(array|object $model): array
    {
        if (is_object($model)) {
            $model = method_exists($model, 'getTools') ? $model->getTools() : get_object_vars($model);
        }
        $model = is_array($model) ? $model : [];
        return is_array($model['tools'] ?? null) ? $model['tools'] : $model;
    }
}
