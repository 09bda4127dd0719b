<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\Tests\Support\Expect;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

/**
 * The built-in tools that use services, in this process (D6, D7).
 *
 * @group extension
 */
final class BuiltinServicesTest extends TestCase
{
    private const MODEL = ['function_calling' => true];

    public function testD6TheWeatherIsOfferedIfConfigured(): void
    {
        self::assertFalse(ToolRegistry::withBuiltins()->has('get_weather'));
        $registry = ToolRegistry::withBuiltins(['get_weather' => ['provider' => 'mock', 'units' => 'fahrenheit']]);
        self::assertArrayHasKey('get_weather', $registry->getAvailableForModel(self::MODEL));
        $result = $registry->execute('get_weather', ['location' => 'Tokyo'], 'call_1');
        self::assertSame([true, 77.0, 'fahrenheit', 'mock'], [$result->success, $result->data['temperature'], $result->data['units'], $result->metadata['source']]);
    }

    public function testD6OpenMeteoIsTheDefaultProvider(): void
    {
        $registry = ToolRegistry::withBuiltins(['get_weather' => []]);
        self::assertStringContainsString('Open-Meteo', $registry->get('get_weather')->getDefinition()->description);
        // No service listens there: the tool sends a request and invents nothing.
        $registry = ToolRegistry::withBuiltins(['get_weather' => ['provider' => 'open-meteo', 'base_url' => 'http://127.0.0.1:1', 'timeout' => 5]]);
        self::assertSame('unavailable', $registry->execute('get_weather', ['location' => 'Tokyo'], 'call_1')->errorCode);
    }

    public function testD7ASearchWithoutAProviderIsNotOffered(): void
    {
        $registry = ToolRegistry::withBuiltins(['web_search' => []]);
        self::assertSame(['calculator', 'get_time', 'roll_dice'], array_keys($registry->getAvailableForModel(self::MODEL)));
        $result = $registry->execute('web_search', ['query' => 'x'], 'call_1');
        self::assertSame('unavailable', $result->errorCode);
        self::assertStringContainsString('web_search is not configured', $result->error);
        $registry = ToolRegistry::withBuiltins(['web_search' => ['provider' => 'mock']]);
        self::assertCount(2, $registry->execute('web_search', ['query' => 'x', 'num_results' => 2], 'call_1')->data['results']);
    }

    public function testD2TheTimeIsInTheZoneOfTheApplication(): void
    {
        $registry = ToolRegistry::withBuiltins(['get_time' => ['timezone' => 'Asia/Tokyo']]);
        self::assertSame(['calculator', 'get_time', 'roll_dice'], array_keys($registry->getAvailableForModel(self::MODEL)));
        self::assertSame('Asia/Tokyo', $registry->execute('get_time', [], 'call_1')->metadata['timezone']);
        self::assertSame('UTC', $registry->execute('get_time', ['timezone' => 'UTC'], 'call_2')->metadata['timezone']);
        $registry = ToolRegistry::withBuiltins(['get_time' => []]);
        self::assertSame('UTC', $registry->execute('get_time', [], 'call_3')->metadata['timezone']);
    }

    /** @return iterable<string, array{array<string, mixed>, string}> */
    public static function wrongSettings(): iterable
    {
        yield 'a service that there is not' => [['forecast' => []], "Unknown service 'forecast'"];
        yield 'a setting that there is not' => [['get_weather' => ['keey' => 1]], "Invalid setting 'get_weather.keey': unknown field"];
        yield 'a zone that there is not' => [['get_time' => ['timezone' => 'Mars/Olympus']], "Invalid setting 'get_time.timezone': Unknown timezone: Mars/Olympus"];
        yield 'a setting of another for the time' => [['get_time' => ['units' => 'celsius']], "Invalid setting 'get_time.units': unknown field"];
        yield 'no array' => [['get_weather' => 5], "The settings of 'get_weather' must be an array"];
        yield 'a list' => [['get_weather'], '$services must be an array with service names as keys'];
        yield 'a setting of the other' => [['web_search' => ['geocoding_url' => 'http://x/']], "Invalid setting 'web_search.geocoding_url': the setting belongs to get_weather"];
        yield 'a key that is a number' => [['get_weather' => ['api_key' => 777]], "Invalid setting 'get_weather.api_key': expected a string"];
        yield 'a time without end' => [['get_weather' => ['timeout' => PHP_INT_MAX]], 'get_weather.timeout must be a number of seconds'];
        yield 'a provider that there is not' => [['get_weather' => ['provider' => 'x']], "Invalid setting 'get_weather.provider'"];
        yield 'a provider without key' => [['web_search' => ['provider' => 'brave']], "Invalid setting 'web_search.provider': set api_key"];
        yield 'a key without a provider' => [['get_weather' => ['api_key' => 's3cret']], "Invalid setting 'get_weather.api_key': set provider to the service"];
        yield 'a variable that is not set' => [['get_weather' => ['provider' => 'openweathermap', 'api_key_env' => 'NO_SUCH_KEY']], 'NO_SUCH_KEY is not set'];
        yield 'a password in the URL' => [['web_search' => ['provider' => 'searxng', 'base_url' => 'http://u:s3cret@x/']], "Invalid setting 'web_search.base_url'"];
    }

    /** @dataProvider wrongSettings */
    public function testErrorsAreClear(array $services, string $message): void
    {
        $e = Expect::exception(InvalidInputException::class, fn () => ToolRegistry::withBuiltins($services));
        self::assertStringContainsString($message, $e->getMessage());
        self::assertStringNotContainsString('s3cret', $e . print_r($e->getTrace()[0], true));
        self::assertStringNotContainsString('777', $e->getMessage());
    }
}
