<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/**
 * An obedient language model: lines such as `roll_dice {"notation": "2d6"}` are calls, and it repeats
 * their results; anything else it repeats. `url()` starts it once for the whole run and dialect.
 */
final class FakeLlm
{
    /** @var array<string, string> by dialect */
    private static array $urls = [];

    /** @var array<string, array<int, resource>> it ends when its standard input does */
    private static array $pipes = [];

    /** Below which it speaks as a provider of that name does; `openai` are the chat completions. */
    public static function url(string $dialect = 'openai'): string
    {
        return self::$urls[$dialect] ??= self::start($dialect);
    }

    /**
     * The settings of a sidecar that has it as its model.
     *
     * @return array<string, string>
     */
    public static function forSidecar(): array
    {
        return [
            'PILLION__PROVIDERS' => '[{name = "fake", base_url = "' . self::url() . '"}]',
            'PILLION__MODELS' => '[{id = "demo", provider = "fake", tools = {function_calling = true, mcp = true}},'
                . ' {id = "few", provider = "fake", tools = {function_calling = true, enabled_tools = ["calculator"]}}]',
        ];
    }

    private static function start(string $dialect): string
    {
        $program = getenv('PILLION_FAKE_LLM') ?: dirname((string) getenv('PILLION')) . '/examples/fake-llm';
        if (!is_executable($program)) {
            throw new \RuntimeException("There is no fake model at '$program': cargo build -p pillion-testkit --example fake-llm");
        }
        $streams = [['pipe', 'r'], ['pipe', 'w'], ['file', '/dev/null', 'w']];
        $process = proc_open([$program, $dialect], $streams, $pipes);
        if ($process === false) {
            throw new \RuntimeException("$program could not be started");
        }
        self::$pipes[$dialect] = [...$pipes, $process];
        return trim((string) fgets($pipes[1]));
    }
}
