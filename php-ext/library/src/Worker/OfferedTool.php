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
final class OfferedTool implements ToolInterface
{
    private const OPTIONS = ['title', 'annotations', 'outputSchema', 'timeout', 'requiresConfirmation'];

    public ?ToolResult $returned = null;
    /** The result that the executor made of the tool's return value. */
    public ?ToolResult $executorResult = null;
    public ?\Throwable $thrown = null;
    private readonly ToolDefinition $definition;
    private readonly \stdClass $description;

    /**
     * @param array<string, mixed> $options as for {@see \Pillion\Worker::add()}
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public function __construct(private readonly ToolInterface $tool, array $options)
    {
        $this->definition = $tool->getDefinition();
        if ($tool->getName() !== $this->definition->name) {
            throw Failure::invalidInput("Tool '{$tool->getName()}' has a definition of the name '{$this->definition->name}'");
        }
        $this->description = self::describe($this->definition, $options);
    }

    /**
     * Returns the description that is sent to the sidecar: an entry of MCP's `tools/list` plus Pillion's own
     * members.
     */
    public function description(): \stdClass
    {
        return $this->description;
    }

    /**
     * Releases the results of the previous call: they may be large, and the next call may come much later.
     */
    public function reset(): void
    {
        $this->returned = $this->executorResult = $this->thrown = null;
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
        } catch (\Throwable $exception) {
            $this->thrown = $exception;
            throw $exception;
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
    private static function describe(ToolDefinition $definition, array $options): \stdClass
    {
        $invalid = static fn (string $option, string $reason) => Failure::invalidInput("$definition->name: the option '$option' $reason");
        foreach (array_keys($options) as $option) {
            if (!in_array($option, self::OPTIONS, true)) {
                throw $invalid((string) $option, 'is unknown, expected one of ' . implode(', ', self::OPTIONS));
            }
            if ($options[$option] === null) {
                throw $invalid($option, 'must not be null: leave it out for its default');
            }
        }
        $description = [
            'name' => $definition->name,
            'description' => $definition->description,
            'inputSchema' => InputSchema::tree($definition),
            'category' => $definition->category,
            'requiresConfirmation' => $definition->requiresConfirmation,
            'cooldownSeconds' => $definition->cooldownSeconds,
            'strict' => $definition->strict,
        ];
        if (isset($options['title'])) {
            $description['title'] = is_string($options['title']) && Argument::isUtf8($options['title'])
                ? $options['title']
                : throw $invalid('title', 'must be text');
        }
        foreach (['annotations', 'outputSchema'] as $option) {
            if (isset($options[$option])) {
                $map = $options[$option] === [] ? new \stdClass() : Json::toTree($options[$option], "option '$option'");
                $description[$option] = $map instanceof \stdClass ? $map : throw $invalid($option, 'must be a map');
            }
        }
        if (isset($options['requiresConfirmation'])) {
            $description['requiresConfirmation'] = is_bool($options['requiresConfirmation'])
                ? $options['requiresConfirmation']
                : throw $invalid('requiresConfirmation', 'must be true or false');
        }
        if (isset($options['timeout'])) {
            $seconds = $options['timeout'];
            if (!(is_int($seconds) || is_float($seconds)) || !($seconds > 0 && $seconds < 1e9)) {
                throw $invalid('timeout', 'must be a number of seconds above zero');
            }
            $description['timeoutMs'] = max(1, (int) ($seconds * 1000));
        }
        return (object) $description;
    }
}
