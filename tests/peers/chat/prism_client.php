<?php

declare(strict_types=1);

/*
 * Composer's prism-php/prism in Laravel, as an application uses it, with the sidecar behind the URLs of
 * its providers: those that speak OpenAI's chat completions, and Anthropic's.
 *
 * prism_client.php ORIGIN TOKEN, with the packages in PILLION_PHP_VENDOR. Behind the sidecar is the model
 * of tests/integration/chat/clients.rs, which does what it is told. Ends with an error when an answer is
 * not the right one.
 */

use Illuminate\Config\Repository;
use Illuminate\Foundation\Application;
use Illuminate\Support\Facades\Facade;
use Prism\Prism\Enums\FinishReason;
use Prism\Prism\Exceptions\PrismException;
use Prism\Prism\Exceptions\PrismRateLimitedException;
use Prism\Prism\Facades\Prism;
use Prism\Prism\PrismServiceProvider;
use Prism\Prism\Streaming\Events\StreamEndEvent;
use Prism\Prism\Streaming\Events\TextDeltaEvent;
use Prism\Prism\Text\PendingRequest;
use Prism\Prism\Tool;

require getenv('PILLION_PHP_VENDOR') . '/autoload.php';

const SUM = 'calculator {"expression": "6 * 7"}';
/** Those of Groq and Mistral read streamed calls in a way that nobody else sends them. */
const PROVIDERS = ['openrouter', 'deepseek', 'xai', 'anthropic'];

function same(mixed $expected, mixed $found): void
{
    if ($expected !== $found) {
        throw new LogicException('Expected ' . var_export($expected, true) . ', found ' . var_export($found, true));
    }
}

/** A Laravel application whose `config/prism.php` names the sidecar. */
function boot(string $origin, string $token): void
{
    $application = new Application(sys_get_temp_dir());
    $sidecar = ['url' => "$origin/v1", 'api_key' => $token, 'version' => '2023-06-01'];
    $application->instance('config', new Repository([
        'prism' => ['request_timeout' => 30, 'providers' => array_fill_keys(PROVIDERS, $sidecar)],
    ]));
    Facade::setFacadeApplication($application);
    $application->register(PrismServiceProvider::class);
}

function ask(string $provider, string $said, string $model = 'demo'): PendingRequest
{
    return Prism::text()->using($provider, $model)->withPrompt($said)->withMaxTokens(100);
}

/** The exception of that class that the request ends with. */
function refusal(string $class, callable $request): Throwable
{
    try {
        $request();
    } catch (Throwable $error) {
        return $error instanceof $class ? $error : throw $error;
    }
    throw new LogicException("no $class");
}

/** The words of a stream, and its end. */
function streamed(PendingRequest $request): array
{
    [$words, $end] = ['', null];
    foreach ($request->asStream() as $event) {
        $words .= $event instanceof TextDeltaEvent ? $event->delta : '';
        $end = $event instanceof StreamEndEvent ? $event : $end;
    }
    return [$words, $end];
}

function answers(string $provider): void
{
    $answer = ask($provider, SUM)->withSystemPrompt('Be short.')->asText();
    same('The tools say: 42', $answer->text);
    same(FinishReason::Stop, $answer->finishReason);
    same([20, 10], [$answer->usage->promptTokens, $answer->usage->completionTokens]);
    same('demo', $answer->meta->model);
    [$words, $end] = streamed(ask($provider, SUM));
    same(['The tools say: 42', FinishReason::Stop], [$words, $end->finishReason]);
}

/** Tools of the application: Prism runs them, and asks until there are words. */
function ownTools(string $provider): void
{
    $sizes = [];
    $pizza = (new Tool())->as('order_pizza')->for('Orders a pizza')->withNumberParameter('size', 'In slices')
        ->using(static function (int $size) use (&$sizes): string {
            $sizes[] = $size;
            return 'Ordered.';
        });
    $nothing = (new Tool())->as('wait_a_bit')->for('Waits')->using(static fn (): string => 'Waited.');
    $with = static fn (string $said) => ask($provider, $said)->withTools([$pizza, $nothing])->withMaxSteps(3);
    $two = "order_pizza {\"size\": 1}\norder_pizza {\"size\": 2}";
    same('The tools say: Ordered.; Ordered.', $with($two)->asText()->text);
    same('The tools say: Ordered.; Ordered.', streamed($with($two))[0]);
    same([1, 2, 1, 2], $sizes);
    same('The tools say: Waited.', $with('wait_a_bit {}')->asText()->text);
    same('The tools say: Waited.', streamed($with('wait_a_bit {}'))[0]);
}

function errors(string $provider): void
{
    refusal(PrismException::class, static fn () => ask($provider, 'Hi', 'gone')->asText());
    refusal(PrismException::class, static fn () => streamed(ask($provider, 'Hi', 'gone')));
    // DeepSeek's driver has no class for this, but the words.
    $busy = $provider === 'deepseek' ? PrismException::class : PrismRateLimitedException::class;
    refusal($busy, static fn () => ask($provider, "refuse $provider")->asText());
    // Not every driver looks for errors in a stream: so that is refused before it begins.
    refusal($busy, static fn () => streamed(ask($provider, "refuse the stream of $provider")));
}

[, $origin, $token] = $argv;
boot($origin, $token);
foreach (PROVIDERS as $provider) {
    try {
        answers($provider);
        ownTools($provider);
        errors($provider);
    } catch (Throwable $error) {
        throw new LogicException("$provider: {$error->getMessage()}", previous: $error);
    }
}
echo "prism-php/prism: all as it should be\n";
