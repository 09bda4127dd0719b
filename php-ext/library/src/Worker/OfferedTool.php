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
 * A tool that a worker offers, with the results of its last call.
 *
 * @internal
 */
final class OfferedTool implements ToolInterface
{
    private const OPTIONS = ['title', 'annotations', 'outputSchema', 'timeout', 'requiresConfirmation'];

    /** The tool's own return value, in which an empty map is distinct from an empty list. */
    public ?ToolResult $returnedResult = null;
    /** The result that the executor created from the tool's return value. */
    public ?ToolResult $executorResult = null;
    public ?\Throwable $thrownException = null;
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
            throw Failure::invalidInput("Tool '{$tool->getName()}' must have a definition with the same name, not '{$this->definition->name}'");
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
     * Releases the results of the previous call, because large results would otherwise stay in
     * memory until the next call.
     */
    public function reset(): void
    {
        $this->returnedResult = $this->executorResult = $this->thrownException = null;
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
            return $this->returnedResult = $this->tool->execute($arguments, $toolCallId);
        } catch (\Throwable $exception) {
            $this->thrownException = $exception;
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
        $invalidOption = static fn (string $option, string $reason) => Failure::invalidInput("$definition->name: the option '$option' $reason");
        foreach (array_keys($options) as $option) {
            if (!in_array($option, self::OPTIONS, true)) {
                throw $invalidOption((string) $option, 'is unknown, expected one of ' . implode(', ', self::OPTIONS));
            }
            if ($options[$option] === null) {
                throw $invalidOption($option, 'must not be null: omit the option to use its default');
            }
        }
        $description = [
            'name' => $definition->name,
            'description' => $definition->description,
            'inputSchema' => InputSchema::toTree($definition),
            'category' => $definition->category,
            'requiresConfirmation' => $definition->requiresConfirmation,
            'cooldownSeconds' => $definition->cooldownSeconds,
            'strict' => $definition->strict,
        ];
        if (isset($options['title'])) {
            $description['title'] = is_string($options['title']) && Argument::isUtf8($options['title'])
                ? $options['title']
                : throw $invalidOption('title', 'must be text');
        }
        foreach (['annotations', 'outputSchema'] as $option) {
            if (isset($options[$option])) {
                $tree = $options[$option] === [] ? new \stdClass() : Json::toTree($options[$option], "option '$option'");
                $description[$option] = $tree instanceof \stdClass ? $tree : throw $invalidOption($option, 'must be a map');
            }
        }
        if (isset($options['requiresConfirmation'])) {
            $description['requiresConfirmation'] = is_bool($options['requiresConfirmation'])
                ? $options['requiresConfirmation']
                : throw $invalidOption('requiresConfirmation', 'must be true or false');
        }
        if (isset($options['timeout'])) {
            $seconds = $options['timeout'];
            if (!(is_int($seconds) || is_float($seconds)) || !($seconds > 0 && $seconds < 1e9)) {
                throw $invalidOption('timeout', 'must be a number of seconds above zero');
            }
            $description['timeoutMs'] = max(1, (int) ($seconds * 1000));
        }
        return (object) $description;
    }
}
