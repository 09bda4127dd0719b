<?php

declare(strict_types=1);

namespace Pillion\Tests\Support;

/**
 * An obedient language model: lines such as `roll_dice {"notation": "2d6"}` are calls, and the answer
 * repeats their results; the model repeats any other text. `url()` starts one model per dialect and run.
 */
final class FakeLlm
{
    /** @var array<string, string> by dialect */
    private static array $urls = [];

    /** @var array<string, array<int, resource>> the process ends when its standard input is closed */
    private static array $pipes = [];

    /** Returns the base URL of the API of that provider; `openai` is the chat completions API. */
    public static function url(string $dialect = 'openai'): string
    {
        return self::$urls[$dialect] ??= self::start($dialect);
    }

    /**
     * Returns the settings of a sidecar with this model.
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
