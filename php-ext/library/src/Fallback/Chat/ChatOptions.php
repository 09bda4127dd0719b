<?php

declare(strict_types=1);

namespace Pillion\Fallback\Chat;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;

/**
 * The options of `ToolAwareChat` for a chat in the sidecar.
 *
 * @internal
 */
final class ChatOptions
{
    private const EXPECTED_TYPES = [
        'system' => 'a string',
        'enable_tools' => 'a boolean',
        'temperature' => 'a number',
        'max_output_tokens' => 'a number',
        'timeout' => 'a number',
    ];
    /** The options that apply only to a chat whose tool loop runs in the PHP process. */
    private const PROCESS_OPTIONS = ['top_p', 'stop', 'extra', 'max_tool_calls', 'max_tool_rounds', 'max_calls_per_answer', 'max_total_tokens'];

    public readonly float $timeout;

    /** @var array<string, mixed> the members of the request that starts a chat */
    public readonly array $startRequest;

    /**
     * @param array<array-key, mixed> $options
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public function __construct(array $options)
    {
        Json::toTree($options, 'argument $options');
        foreach ($options as $key => $value) {
            if (in_array($key, self::PROCESS_OPTIONS, true)) {
                throw Failure::invalidInput("Invalid chat option '$key': set it in the sidecar's configuration instead");
            }
            $expectedType = self::EXPECTED_TYPES[$key] ?? throw Failure::invalidInput("Invalid chat option '$key': unknown field `$key`");
            $isAccepted = match (true) {
                $key === 'system' => is_string($value),
                $key === 'enable_tools' => is_bool($value),
                $key === 'max_output_tokens' => is_int($value) && $value >= 0,
                default => is_int($value) || is_float($value),
            };
            if (!$isAccepted) {
                throw Failure::invalidInput("Invalid chat option '$key': expected $expectedType");
            }
        }
        $this->timeout = Argument::checkSeconds('timeout', $options['timeout'] ?? 300);
        unset($options['timeout']);
        $this->startRequest = $options + ['enable_tools' => true];
    }
}
