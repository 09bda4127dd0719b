<?php

declare(strict_types=1);

namespace Pillion\Laravel\Models;

/**
 * Reads those flags of a model's capabilities that the Laravel package needs; the registry reads
 * the other flags.
 */
final class ModelCapabilities
{
    /** Returns whether the model may see tools of MCP servers. If not, the tools of MCP servers are not loaded. */
    public static function allowsMcpTools(array|object $model): bool
    {
        $tools = self::tools($model);
        return ($tools['function_calling'] ?? false) && ($tools['mcp'] ?? false);
    }

    /**
     * Returns the format of the model's requests, which is one of the providers of
     * `ProviderFormat`.
     */
    public static function provider(array|object $model): string
    {
        $fields = is_array($model) ? $model : get_object_vars($model);
        $provider = $fields['provider'] ?? self::tools($model)['provider'] ?? null;
        return is_string($provider) && $provider !== '' ? $provider : 'openai';
    }

    /** @return array<string, mixed> */
    private static function tools(array|object $model): array
    {
        $fields = $model;
        if (is_object($model)) {
            $fields = method_exists($model, 'getTools') ? $model->getTools() : get_object_vars($model);
        }
        if (!is_array($fields)) {
            return [];
        }
        return is_array($fields['tools'] ?? null) ? $fields['tools'] : $fields;
    }
}
