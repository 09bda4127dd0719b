<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\InputSchema;
use Pillion\Fallback\Json;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolResult;

/**
 * A tool that a worker offers. Keeps the tool's own return value, in which an empty map is distinct from an
 * empty list.
 *
 * @internal
 */
final class Offered implements ToolInterface
{
    private const OPTIONS = ['title', 'annotations', 'outputSchema', 'timeout', 'requiresConfirmation'];

    public ?ToolResult $returned = null;
    /** The executor's result for the return value. */
    public ?ToolResult $passed = null;
    public ?\Throwable $thrown = null;
    private readonly ToolDefinition $definition;
    private readonly \stdClass $entry;

    /**
     * @param array<string, mixed> $options as for {@see \Pillion\Worker::add()}
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public function __construct(private readonly ToolInterface $tool, array $options)
    {
        $this->definition = $tool->getDefinition();
        $this->entry = self::entry($this->definition, $options);
    }

    /**
     * Returns the description that is sent to the sidecar: an entry of MCP's `tools/list` plus Pillion's own
     * members.
     */
    public function description(): \stdClass
    {
        return $this->entry;
    }

    /**
     * Releases the results of the previous call: they may be large, and the next call may come much later.
     */
    public function forget(): void
    {
        $this->returned = $this->passed = $this->thrown = null;
    }

    public function getName(): string
    {
        return $this->tool->getName();
    }

    public function getDefinition(): ToolDefinition
    {
        return $this->definition;
    }

    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        try {
            return $this->returned = $this->tool->execute($arguments, $toolCallId);
        } catch (\Throwable $thrown) {
            $this->thrown = $thrown;
            throw $thrown;
        }
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
        return $this->tool->isAvailableForProvider($providerClass);
    }

    public function isEnabledForModel(array|object $model): bool
    {
        return $this->tool->isEnabledForModel($model);
    }

    /** @param array<string, mixed> $options */
    private static function entry(ToolDefinition $definition, array $options): \stdClass
    {
        $wrong = static fn (string $option, string $why) => Failure::invalidInput("$definition->name: the option '$option' $why");
        foreach (array_keys($options) as $option) {
            if (!in_array($option, self::OPTIONS, true)) {
                throw $wrong((string) $option, 'is unknown, expected one of ' . implode(', ', self::OPTIONS));
            }
        }
        $entry = [
            'name' => $definition->name,
            'description' => $definition->description,
            'inputSchema' => InputSchema::tree($definition),
            'category' => $definition->category,
            'requiresConfirmation' => $definition->requiresConfirmation,
            'cooldownSeconds' => $definition->cooldownSeconds,
            'strict' => $definition->strict,
        ];
        if (isset($options['title'])) {
            $entry['title'] = is_string($options['title']) && Argument::isUtf8($options['title'])
                ? $options['title']
                : throw $wrong('title', 'must be text');
        }
        foreach (['annotations', 'outputSchema'] as $option) {
            if (isset($options[$option])) {
                $map = $options[$option] === [] ? new \stdClass() : Json::tree($options[$option], "option '$option'");
                $entry[$option] = $map instanceof \stdClass ? $map : throw $wrong($option, 'must be a map');
            }
        }
        if (isset($options['requiresConfirmation'])) {
            $entry['requiresConfirmation'] = is_bool($options['requiresConfirmation'])
                ? $options['requiresConfirmation']
                : throw $wrong('requiresConfirmation', 'must be true or false');
        }
        if (isset($options['timeout'])) {
            $seconds = $options['timeout'];
            if (!(is_int($seconds) || is_float($seconds)) || !($seconds > 0 && $seconds < 1e9)) {
                throw $wrong('timeout', 'must be a number of seconds above zero');
            }
            $entry['timeoutMs'] = max(1, (int) ($seconds * 1000));
        }
        return (object) $entry;
    }
}
