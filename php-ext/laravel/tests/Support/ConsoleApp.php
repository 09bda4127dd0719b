<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

use Illuminate\Auth\GenericUser;
use Illuminate\Cookie\Middleware\AddQueuedCookiesToResponse;
use Illuminate\Cookie\Middleware\EncryptCookies;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use Illuminate\Routing\Middleware\SubstituteBindings;
use Illuminate\Session\Middleware\StartSession;

/** The parts of an application that the console needs: the middleware group `web` and a log-in. */
final class ConsoleApp
{
    /**
     * Adds the group `web` as in a new application, the route `/login/{email}`, and the route
     * `/form`, which needs a CSRF token. Defines the gate for the users in `console_test.allowed`.
     */
    public static function prepare(Application $app): void
    {
        $router = $app->make('router');
        $router->middlewareGroup('web', [
            EncryptCookies::class,
            AddQueuedCookiesToResponse::class,
            StartSession::class,
            self::csrfMiddleware(),
            SubstituteBindings::class,
        ]);
        $app->make('auth')->viaRequest('session-email', static function (Request $request): ?GenericUser {
            $email = $request->hasSession() ? $request->session()->get('email') : null;
            return $email === null ? null : new GenericUser(['id' => 7, 'email' => $email]);
        });
        $config = $app->make('config');
        $config->set('auth.guards.web', ['driver' => 'session-email']);
        $allowed = $config->get('console_test.allowed');
        if ($allowed !== null) {
            $app->make('Illuminate\\Contracts\\Auth\\Access\\Gate')->define('viewPillion', static fn (GenericUser $user): bool => in_array($user->email, $allowed, true));
        }
        $router->middleware('web')->group(static function () use ($router): void {
            $router->get('/login/{email}', static function (Request $request, string $email): string {
                $request->session()->put('email', $email);
                return (string) $request->session()->token();
            });
            $router->post('/form', static fn (): string => 'accepted');
        });
    }

    /** @return class-string the check of CSRF tokens of this version of Laravel */
    private static function csrfMiddleware(): string
    {
        $namespace = 'Illuminate\\Foundation\\Http\\Middleware';
        foreach (['PreventRequestForgery', 'ValidateCsrfToken', 'VerifyCsrfToken'] as $class) {
            if (class_exists("$namespace\\$class")) {
                return "$namespace\\$class";
            }
        }
        throw new \LogicException('This version of Laravel has no check of CSRF tokens');
    }
}
