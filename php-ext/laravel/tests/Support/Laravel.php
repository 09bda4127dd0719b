<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

use Illuminate\Contracts\Console\Kernel as ConsoleKernelContract;
use Illuminate\Contracts\Debug\ExceptionHandler as ExceptionHandlerContract;
use Illuminate\Contracts\Http\Kernel as HttpKernelContract;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Console\Kernel as ConsoleKernel;
use Illuminate\Foundation\Exceptions\Handler;
use Illuminate\Foundation\Http\Kernel as HttpKernel;
use RuntimeException;

/** A Laravel application in a folder. */
final class Laravel
{
    /** Boots the application as the console's kernel does. */
    public static function application(string $path): Application
    {
        $app = self::make($path);
        $app->make(ConsoleKernelContract::class)->bootstrap();
        return $app;
    }

    /** Creates the application as `bootstrap/app.php` does. */
    public static function make(string $path): Application
    {
        $app = new Application($path);
        $app->singleton(HttpKernelContract::class, HttpKernel::class);
        $app->singleton(ConsoleKernelContract::class, ConsoleKernel::class);
        $app->singleton(ExceptionHandlerContract::class, Handler::class);
        return $app;
    }

    /** Runs `artisan` in a separate process; returns its output. */
    public static function artisan(string $path, string ...$arguments): string
    {
        [$process, $pipes] = self::start($path, [], ...$arguments);
        $printed = (string) stream_get_contents($pipes[1]);
        $code = proc_close($process);
        if ($code !== 0) {
            throw new RuntimeException("artisan ended with $code: $printed");
        }
        return $printed;
    }

    /**
     * Starts `artisan` in a separate process.
     *
     * @param array<string, string> $environment more of it
     *
     * @return array{resource, array<int, resource>} pipe 1 has what it prints
     */
    public static function start(string $path, array $environment, string ...$arguments): array
    {
        return self::open([__DIR__ . '/artisan.php', $path, ...$arguments], $environment);
    }

    /** Runs PHP code in a separate process, in the application in a folder; returns the value that the code returns. */
    public static function evaluate(string $path, string $code): mixed
    {
        [$process, $pipes] = self::open([__DIR__ . '/evaluate.php', $path, $code], []);
        $printed = (string) stream_get_contents($pipes[1]);
        if (proc_close($process) !== 0) {
            throw new RuntimeException($printed);
        }
        return json_decode($printed, true, flags: JSON_THROW_ON_ERROR);
    }

    /**
     * @param list<string>          $arguments   the script and its arguments
     * @param array<string, string> $environment more of it
     *
     * @return array{resource, array<int, resource>}
     */
    private static function open(array $arguments, array $environment): array
    {
        $options = extension_loaded('pillion')
            ? ['-d', 'extension=' . getenv('PILLION_EXTENSION'), '-d', 'pillion.log_level=off']
            : [];
        $command = [PHP_BINARY, ...$options, ...$arguments];
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, null, $environment + getenv());
        if ($process === false) {
            throw new RuntimeException('artisan could not be started');
        }
        return [$process, $pipes];
    }
}
